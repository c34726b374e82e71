"""Dead letters: grouped by what went wrong, listed, read one by one, and closed without another run."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from starlette.exceptions import HTTPException
from starlette.responses import Response

from homing.dashboard import letters, words
from homing.dashboard.letters import Closed, read_filter, read_ids, read_letter
from homing.dashboard.visit import Visit, deed, page
from homing.deadletters.filters import Filter
from homing.deadletters.letters import (
    NEWEST,
    group_newest_letters,
    letter_histograms,
    letter_history,
    list_letters,
    show_letter,
)
from homing.deadletters.redrive import Redrive
from homing.ids import DeliveryKey
from homing.ledger.ledger import Row

ON_A_PAGE = 50
MOST_GROUPS = 50

SPAN_SECONDS = 24 * 3600.0
"""How far back the sparklines of groups go."""

SLOTS = 48

MOST_DISMISSED = 10_000
"""Letters that one deed closes."""

_GATHERED = 500


async def show_groups(visit: Visit) -> Response:
    """Open letters by fingerprint, the most numerous group first, with when they died."""
    chosen = read_filter(visit.query)
    groups = await group_newest_letters(visit.ledger, chosen, most=MOST_GROUPS)
    names = [row["fingerprint"] for row in groups.groups]
    past = await letter_histograms(visit.ledger, names, span_seconds=SPAN_SECONDS, slots=SLOTS)
    return visit.page(
        "deadletters.html",
        chosen=chosen,
        given=letters.given(chosen),
        kinds=letters.KINDS,
        groups=groups,
        past=past,
        most=MOST_GROUPS,
        command_line=visit.command("deadletters", "groups", *letters.listing_options(chosen)),
    )


async def show_list(visit: Visit) -> Response:
    """Letters one by one, the newest first."""
    chosen, closed = read_filter(visit.query), visit.query.choice("closed", Closed) or Closed.OPEN
    before = visit.query.text("after", most=20)
    found = await list_letters(
        visit.ledger,
        chosen,
        is_open=closed.is_open,
        before=NEWEST if before is None else read_letter("after", before),
        most=ON_A_PAGE,
    )
    flags = {Closed.OPEN: [], Closed.CLOSED: ["--closed"], Closed.ALL: ["--all"]}[closed]
    return visit.page(
        "letters.html",
        chosen=chosen,
        given=letters.given(chosen),
        kinds=letters.KINDS,
        closed=closed,
        choices=tuple(Closed),
        found=found,
        command_line=visit.command("deadletters", "list", *letters.listing_options(chosen), *flags),
    )


async def show_one(visit: Visit) -> Response:
    """One death: the error with its stack, what the job carried, and every death of its delivery."""
    row = await show_letter(visit.ledger, read_letter("letter", visit.part("letter")))
    history = await letter_history(visit.ledger, row)
    return visit.page(
        "letter.html",
        letter=row,
        error=read_error(row["error"]),
        data=visit.desk.masks.read(row["data"]),
        payload=visit.desk.masks.read(row["payload"]),
        edited=visit.desk.masks.read(row["edited"]),
        trace_id=trace_of(row["headers"]),
        now_as=job_now(row),
        history=history,
        command_line=visit.command("deadletters", "show", row["id"]),
    )


async def dismiss(visit: Visit) -> Response:
    """Ask first, with how many there are; then close letters whose deliveries need not run any more."""
    visit.person(None).require("dismiss")
    is_all = bool(visit.form.raw("all"))
    chosen = replace(read_filter(visit.form), ids=None) if is_all else Filter(ids=read_ids(visit.form))
    ids = await gather(visit, chosen) if is_all else list(chosen.ids or ())
    if not ids:
        raise HTTPException(400, "nothing is open there, or nothing was selected: mark some rows first")
    if visit.form.raw("confirmed") == "yes":
        closed = await Redrive(visit.ledger).dismiss(ids, visit.reasoned())
        left = len(ids) - len(closed)
        others = f"; {words.count_of(left, 'letter')} had been closed meanwhile" if left else ""
        return visit.go("/deadletters", f"{words.count_of(len(closed), 'letter')} dismissed{others}")
    return _ask(visit, chosen, ids, is_all=is_all)


def _ask(visit: Visit, chosen: Filter, ids: Sequence[int], *, is_all: bool) -> Response:
    return visit.page(
        "confirm.html",
        title="Dismiss them?",
        count=words.count_of(len(ids), "letter") + (" or more" if len(ids) == MOST_DISMISSED else ""),
        sentence="The letters are closed, and their deliveries stay dead, for good: nothing of them runs again.",
        button="Dismiss",
        danger=True,
        action=visit.url("/deadletters/dismiss"),
        fields=[("confirmed", "yes"), *([("all", "yes")] if is_all else []), *letters.fields(chosen)],
        back=visit.url("/deadletters/list", **({} if not is_all else letters.given(chosen))),
        subjects=[f"letter {each}" for each in ids],
        command_line=visit.command("deadletters", "dismiss", *(ids if len(ids) <= 5 else ["-"])),
    )


async def gather(visit: Visit, chosen: Filter) -> list[int]:
    """The open letters that a filter chooses now, the newest first."""
    ids: list[int] = []
    before: int | None = NEWEST
    while before is not None and len(ids) < MOST_DISMISSED:
        found = await list_letters(visit.ledger, chosen, is_open=True, before=before, most=_GATHERED)
        ids += [row["id"] for row in found.letters]
        before = found.before
    return ids


@dataclass(frozen=True, slots=True)
class Failure:
    """What a letter says of its error; anybody's text."""

    title: str
    text: str
    frame: str
    reason: str
    stack: str


def read_error(stored: str) -> Failure:
    """The error as the letter keeps it: what is no text in it is written as JSON. Pure."""
    value: Any = json.loads(stored)
    error: Mapping[str, Any] = value if isinstance(value, dict) else {"text": value}
    parts = {
        name: "" if error.get(name) is None else _text(error[name])
        for name in ("class", "text", "frame", "reason", "stack")
    }
    return Failure(parts["class"], parts["text"], parts["frame"], parts["reason"], parts["stack"])


def job_now(letter: Row) -> str | None:
    """The job as which the letter's delivery was run again, of the newest generation. Pure."""
    if letter["row_generation"] is None or letter["row_generation"] <= letter["generation"]:
        return None
    return DeliveryKey(letter["event_id"], letter["consumer"], letter["row_generation"]).job_id


def trace_of(headers: str | None) -> str | None:
    """The trace that the event was recorded in. Pure."""
    value: Any = None if headers is None else json.loads(headers)
    trace = value.get("traceId") if isinstance(value, dict) else None
    return trace if isinstance(trace, str) and trace else None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


ROUTES = (
    page("/deadletters", show_groups),
    page("/deadletters/list", show_list),
    deed("/deadletters/dismiss", dismiss),
)

LETTER = (page("/deadletters/{letter}", show_one),)
"""Apart, since every other path below `/deadletters` comes before it."""
