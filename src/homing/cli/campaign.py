"""Carrying a redrive campaign out in the foreground, and showing how it goes."""

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol
from uuid import UUID

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars

from homing.clock import SystemClock
from homing.deadletters.campaign import Campaign
from homing.deadletters.campaigns import Campaigns, Progress
from homing.deadletters.runner import CampaignRunner
from homing.errors import Refused
from homing.harmless import clean_line
from homing.ledger.actions import Person
from homing.ledger.ledger import Ledger

STEP_SECONDS = 0.1
FOLLOW_SECONDS = 0.5
LINE_SECONDS = 1.0


class Show(Protocol):
    """Shows a campaign as it goes on."""

    def __call__(self, campaign: Campaign) -> None: ...


async def drive(ledger: Ledger, runner: CampaignRunner, campaign: UUID, person: Person, show: Show) -> Progress:
    """Carry a campaign out until it has ended, or follow it where another runner does; being cancelled (Ctrl-C) pauses it."""
    campaigns = Campaigns(ledger)
    try:
        while await _step(campaigns, runner, campaign, show):
            pass
    except asyncio.CancelledError:
        await _pause(campaigns, campaign, person)
    return await campaigns.read(campaign)


async def _step(campaigns: Campaigns, runner: CampaignRunner, campaign: UUID, show: Show) -> bool:
    """One step and the rest after it; whether there may be another."""
    advanced = await runner.advance(campaign)
    if advanced is None:
        found = (await campaigns.read(campaign)).campaign
        show(found)
        if found.state != "running":
            return False
        await asyncio.sleep(FOLLOW_SECONDS)
        return True
    show(advanced.campaign)
    if not advanced.more:
        await asyncio.sleep(STEP_SECONDS)
    return True


async def _pause(campaigns: Campaigns, campaign: UUID, person: Person) -> None:
    try:
        await campaigns.pause(campaign, person)
    except Refused as error:  # it had just ended
        typer.echo(f"homing: {error}", err=True)


@contextmanager
def shown() -> Iterator[Show]:
    """A bar on a terminal, otherwise a line a second; on stderr, so that stdout stays one document."""
    if not sys.stderr.isatty():
        yield _Lines()
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Bars(*columns, console=Console(file=sys.stderr), transient=True) as bars:
        task = bars.add_task("redrive", total=None)

        def show(campaign: Campaign) -> None:
            bars.update(task, description=_doing(campaign), completed=taken(campaign), total=campaign.matched)

        yield show


def taken(campaign: Campaign) -> int:
    """Letters that were redriven or refused."""
    return campaign.redriven + sum(campaign.refused.values())


def describe_campaign(campaign: Campaign) -> str:
    """How far it is, on one line."""
    refused = "".join(f", {number} refused ({reason})" for reason, number in sorted(campaign.refused.items()))
    ended = "" if campaign.end_reason is None else f": {clean_line(campaign.end_reason)}"
    return (
        f"campaign {campaign.id} {campaign.state}{ended}; {campaign.redriven} of {campaign.matched} redriven{refused}, "
        f"{campaign.died_again} died again as before"
    )


def _doing(campaign: Campaign) -> str:
    return "waits for its canary" if campaign.in_canary and campaign.redriven >= campaign.terms.canary else "redrives"


class _Lines:
    """At most one line a second."""

    def __init__(self) -> None:
        self._clock = SystemClock()
        self._next = 0.0

    def __call__(self, campaign: Campaign) -> None:
        now = self._clock.monotonic()
        if now >= self._next:
            self._next = now + LINE_SECONDS
            typer.echo(f"{describe_campaign(campaign)} ({_doing(campaign)})", err=True)
