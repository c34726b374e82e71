"""Redrive campaigns: tried dry, begun with a canary, watched, and stopped."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from starlette.exceptions import HTTPException
from starlette.responses import Response

from homing.dashboard import letters, words
from homing.dashboard.letters import read_filter
from homing.dashboard.query import Query, bad
from homing.dashboard.visit import Visit, deed, page
from homing.deadletters.campaign import Campaign, Terms
from homing.deadletters.campaigns import Campaigns, Progress
from homing.deadletters.filters import Filter
from homing.deadletters.letters import group_letters
from homing.operations.overview import ProcessState
from homing.operations.verdict import next_relay

ON_A_PAGE = 50
MOST_GROUPS = 50

CANARY = 5
"""The canary that the form proposes."""

_RATE = re.compile(r"\d{1,6}(?:\.\d{1,3})?")
_DEFAULTS = Terms()

DEEDS = {"pause": "paused", "resume": "resumed", "stop": "stopped"}


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a bar: of what, how many, and where it lies, in hundredths."""

    name: str
    tone: str
    number: int
    start: float
    width: float


async def preview(visit: Visit) -> Response:
    """What a campaign with this filter would take, before anything is done."""
    visit.person(None).require("redrive")
    return await _preview(visit, read_filter(visit.query))


async def start(visit: Visit) -> Response:
    """Show it dry; begin when the form says so."""
    visit.person(None).require("redrive")
    chosen = read_filter(visit.form)
    if visit.form.raw("confirmed") != "yes":
        if visit.form.raw("all"):
            chosen = replace(chosen, ids=None)
        elif chosen.ids is None:
            raise HTTPException(400, "nothing is selected: mark some rows, or take all that fit the filter")
        return await _preview(visit, chosen)
    if chosen.empty and visit.form.raw("everything") == "yes":
        chosen = replace(chosen, everything=True)
    campaign = await Campaigns(visit.ledger).start(chosen, read_terms(visit.form), visit.reasoned())
    return visit.go(f"/deadletters/campaigns/{campaign.id}", f"begun with {words.count_of(campaign.matched, 'letter')}")


async def show_campaigns(visit: Visit) -> Response:
    """The newest campaigns."""
    found = await Campaigns(visit.ledger).newest(most=ON_A_PAGE)
    return visit.page(
        "campaigns.html",
        found=found,
        bars={campaign.id: taken_of(campaign) for campaign in found},
        describe=letters.describe,
        command_line=visit.command("redrive", "--list"),
    )


async def show_campaign(visit: Visit) -> Response:
    """One campaign: how far it is, how what it redrove fares, and what can be done to it."""
    progress = await Campaigns(visit.ledger).read(_read_id(visit))
    campaign = progress.campaign
    seen = visit.desk.lookout.seen()
    processes = () if seen.status is None else seen.status.overview.processes
    return visit.page(
        "campaign.html",
        progress=progress,
        campaign=campaign,
        bar=parts_of(progress),
        stands=stands(progress, processes),
        describe=letters.describe,
        again={
            **letters.given(campaign.filter),
            "since": campaign.started_at.isoformat(),
            "until": None,
            "id": None,
            "everything": None,
        },
        command_line=visit.command("redrive", "--stop" if campaign.state == "running" else "--resume", campaign.id)
        if campaign.state in ("running", "paused")
        else visit.command("redrive", "--list"),
    )


async def steer(visit: Visit) -> Response:
    """Pause it, let it go on, or end it for good."""
    name, campaign = visit.part("deed"), _read_id(visit)
    if name not in DEEDS:
        raise HTTPException(404)
    visit.person(None).require("redrive")
    campaigns = Campaigns(visit.ledger)
    act = {"pause": campaigns.pause, "resume": campaigns.resume, "stop": campaigns.stop}[name]
    await act(campaign, visit.reasoned())
    return visit.go(f"/deadletters/campaigns/{campaign}", f"the campaign is {DEEDS[name]}")


async def _preview(visit: Visit, chosen: Filter) -> Response:
    groups = await group_letters(visit.ledger, chosen, most=MOST_GROUPS)
    whole = replace(chosen, everything=True) if chosen.empty else chosen
    return visit.page(
        "redrive.html",
        groups=groups,
        fields=[("everything", "yes")] if chosen.empty else letters.fields(chosen),
        filter=letters.describe(chosen),
        given=letters.given(chosen),
        canary=min(CANARY, groups.letters),
        rate=f"{_DEFAULTS.rate:g}",
        stop_after=_DEFAULTS.stop_after,
        command_line=visit.command(
            "redrive", *letters.options(whole), "--canary", min(CANARY, groups.letters), "--dry-run"
        ),
    )


def read_terms(form: Query) -> Terms:
    """How the campaign goes about it; what is left out is as the command line has it."""
    text = form.text("rate", most=20) or f"{_DEFAULTS.rate:g}"
    if not _RATE.fullmatch(text) or float(text) == 0:
        raise bad("rate", text, "give a number of letters per second, above 0, such as 10 or 0.5")
    canary, stop_after = form.number("canary", least=0), form.number("stop_after", least=0)
    return Terms(
        rate=float(text),
        canary=_DEFAULTS.canary if canary is None else canary,
        stop_after=_DEFAULTS.stop_after if stop_after is None else stop_after or None,
    )


def parts_of(progress: Progress) -> Sequence[Part]:
    """Its letters by what became of them, as the parts of one bar. Pure."""
    refused, left = _rest_of(progress.campaign)
    return _bar(
        ("done", "good", progress.done),
        ("on their way", "going", progress.pending),
        ("dead again", "bad", progress.dead_again),
        ("refused", "warn", refused),
        ("left", "left", left),
    )


def taken_of(campaign: Campaign) -> Sequence[Part]:
    """The same as far as its row knows. Pure."""
    refused, left = _rest_of(campaign)
    return _bar(("redriven", "going", campaign.redriven), ("refused", "warn", refused), ("left", "left", left))


def _rest_of(campaign: Campaign) -> tuple[int, int]:
    refused = sum(campaign.refused.values())
    return refused, max(0, campaign.matched - campaign.redriven - refused)


def _bar(*numbers: tuple[str, str, int]) -> Sequence[Part]:
    whole = max(1, sum(number for _, _, number in numbers))
    parts, start = [], 0.0
    for name, tone, number in numbers:
        width = 100 * number / whole
        parts.append(Part(name, tone, number, round(start, 3), round(width, 3)))
        start += width
    return parts


def stands(progress: Progress, processes: Sequence[ProcessState]) -> str:
    """What it does now, in a sentence. Pure."""
    campaign = progress.campaign
    if campaign.state == "running" and next_relay(processes) is None:
        return "No relay lives, and relays carry campaigns out: it goes on as soon as one starts"
    if campaign.state == "running" and campaign.in_canary:
        return _canary(campaign)
    return {
        "running": f"It redrives {campaign.terms.rate:g} letters a second",
        "paused": f"It rests until somebody resumes it: {campaign.end_reason}"
        if campaign.end_reason
        else "It rests until somebody resumes it",
        "stopped": f"It was stopped: {campaign.end_reason}" if campaign.end_reason else "It was stopped",
        "finished": "Every letter was taken",
    }[campaign.state]


def _canary(campaign: Campaign) -> str:
    first = words.count_of(campaign.terms.canary, "letter")
    if campaign.redriven < campaign.terms.canary:
        return f"Its canary goes first: {campaign.redriven:,} of {first}"
    return f"It waits for its canary: the rest follows when the first {first} came through"


def _read_id(visit: Visit) -> UUID:
    try:
        return UUID(visit.part("campaign"))
    except ValueError:
        raise HTTPException(404, "there is no such campaign") from None


ROUTES = (
    page("/deadletters/redrive", preview),
    deed("/deadletters/redrive", start),
    page("/deadletters/campaigns", show_campaigns),
    page("/deadletters/campaigns/{campaign}", show_campaign),
    deed("/deadletters/campaigns/{campaign}/{deed}", steer),
)
