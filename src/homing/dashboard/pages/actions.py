"""What people did, through pages and the command line: who, when, what, to what, how many and why."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from starlette.responses import Response

from homing.dashboard.visit import Visit, page
from homing.operations.actions import Action, ActionPage, list_actions

ON_A_PAGE = 50

CALLS = 5
"""How often a page asks on for a deed that is rare: each call looks at a bounded number of actions."""

MOST_LINKS = 5

_ID = re.compile(r"[0-9a-f-]{36}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which actions: by this person, this deed, since then; `None` = whatever."""

    actor: str | None
    action: str | None
    since: datetime | None

    @property
    def given(self) -> dict[str, str]:
        """The same as an address carries it."""
        since = None if self.since is None else self.since.isoformat()
        values = {"actor": self.actor, "action": self.action, "since": since}
        return {name: value for name, value in values.items() if value is not None}


async def show_actions(visit: Visit) -> Response:
    """A page of what people did, newest first."""
    wanted = read_wanted(visit)
    found = await find(visit, wanted, visit.query.number("after", most=2**63 - 1))
    given = wanted.given
    return visit.page(
        "actions.html",
        found=found,
        given=given,
        links={each.id: list(links_of(visit, each)) for each in found.actions},
        command_line=visit.command(
            "actions", "list", *(word for name, value in given.items() for word in (f"--{name}", value))
        ),
    )


def read_wanted(visit: Visit) -> Wanted:
    """Which actions the address asks for."""
    return Wanted(
        actor=visit.query.text("actor", most=200),
        action=visit.query.text("action", most=60),
        since=visit.query.moment("since"),
    )


async def find(visit: Visit, wanted: Wanted, after: int | None) -> ActionPage:
    """A page, asking on while it is not full and the walk has not ended."""
    found = ActionPage(actions=(), after=after)
    for _ in range(CALLS):
        left = ON_A_PAGE - len(found.actions)
        more = await list_actions(
            visit.ledger,
            actor=wanted.actor,
            action=wanted.action,
            since=wanted.since,
            after=found.after,
            most=left,
        )
        found = ActionPage(actions=found.actions + more.actions, after=more.after)
        if found.after is None or len(found.actions) >= ON_A_PAGE:
            break
    return found


def links_of(visit: Visit, action: Action) -> Iterator[tuple[str, str]]:
    """Where what was done something to can be seen."""
    subject: Mapping[str, Any] = action.subject if isinstance(action.subject, dict) else {}
    for name, path in (("campaign", "/deadletters/campaigns/"), ("event", "/events/")):
        value = subject.get(name)
        if isinstance(value, str) and _ID.fullmatch(value):
            yield f"{name} {value[:8]}", visit.url(f"{path}{value}")
    if isinstance(queue := subject.get("queue"), str) and queue:
        yield f"queue {queue[:60]}", visit.url(f"/queues/{queue}")
    if isinstance(letter := subject.get("letter"), int):
        yield f"letter {letter}", visit.url(f"/deadletters/{letter}")
    for job in _some(subject.get("jobs"), str):
        yield job[:60], visit.job(job)
    for event in _some(subject.get("events"), str):
        yield f"event {event[:8]}", visit.url(f"/events/{event}")
    for letter in _some(subject.get("letters"), int):
        yield f"letter {letter}", visit.url(f"/deadletters/{letter}")


def _some(value: Any, kind: type) -> list[Any]:
    return [each for each in value if isinstance(each, kind)][:MOST_LINKS] if isinstance(value, list) else []


ROUTES = (page("/actions", show_actions),)
