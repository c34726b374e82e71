"""The outbox: events that are not with their consumers yet, and why; parked ones are released here."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from starlette.exceptions import HTTPException
from starlette.responses import Response

from homing.dashboard import words
from homing.dashboard.lookout import Seen
from homing.dashboard.query import Query, bad
from homing.dashboard.visit import Visit, deed, page
from homing.operations.events import EventPage, EventState, list_events, release

ON_A_PAGE = 50
MOST_TOPICS = 100

MOST_RELEASED = 10_000
"""Events that one deed releases."""

_GATHERED = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Which events: in this state, of this topic, due (or recorded) since then."""

    state: EventState = EventState.UNPUBLISHED
    topic: str | None = None
    since: datetime | None = None

    @property
    def given(self) -> dict[str, str]:
        """The choice as an address carries it."""
        since = None if self.since is None else self.since.isoformat()
        values = {"state": self.state.value, "topic": self.topic, "since": since}
        return {name: value for name, value in values.items() if value is not None}


async def show_outbox(visit: Visit) -> Response:
    """Events by state: those that are on their way, those that nobody wants, those that could not be routed."""
    choice = read_choice(visit.query)
    found = await _list(visit, choice, visit.query.uuid("after"), ON_A_PAGE)
    seen = visit.desk.lookout.seen()
    return visit.page(
        "outbox.html",
        choice=choice,
        found=found,
        now=datetime.now(UTC),
        states=tuple(EventState),
        counts=counts_of(seen),
        topics=() if seen.status is None else seen.status.overview.topics[:MOST_TOPICS],
        command_line=visit.command("events", "list", *options(choice)),
    )


async def release_events(visit: Visit) -> Response:
    """Ask first, with how many there are; then let parked events be routed again."""
    visit.person(None).require("release")
    choice = read_choice(visit.form) if visit.form.raw("all") else None
    ids = read_ids(visit.form) if choice is None else await gather(visit, choice)
    if not ids:
        raise HTTPException(400, "nothing is parked there, or nothing was selected: mark some rows first")
    if visit.form.raw("confirmed") == "yes":
        released = await release(visit.ledger, ids, visit.reasoned())
        return visit.go("/outbox", f"{words.count_of(released, 'event')} released: the relay routes them now")
    return _ask(visit, choice, ids)


def _ask(visit: Visit, choice: Choice | None, ids: Sequence[UUID]) -> Response:
    chosen = [("id", str(each)) for each in ids] if choice is None else [("all", "yes"), *choice.given.items()]
    return visit.page(
        "confirm.html",
        title="Release them?",
        count=words.count_of(len(ids), "event") + (" or more" if len(ids) == MOST_RELEASED else ""),
        sentence="Parked events are routed again. What was wrong with them must be mended first, or they are parked again.",
        button="Release",
        danger=False,
        action=visit.url("/outbox/release"),
        fields=[("confirmed", "yes"), *chosen],
        back=visit.url("/outbox", state="parked"),
        subjects=list(map(str, ids)),
        command_line=visit.command("events", "release", *(ids if len(ids) <= 5 else ["-"])),
    )


def read_choice(query: Query) -> Choice:
    """Which events an address or a form asks for."""
    state = query.choice("state", EventState) or EventState.UNPUBLISHED
    return Choice(state=state, topic=query.text("topic"), since=query.moment("since"))


def read_ids(query: Query) -> list[UUID]:
    """Events that were chosen one by one."""
    given = query.all("id")
    if len(given) > MOST_RELEASED:
        raise bad("id", str(len(given)), f"at most {MOST_RELEASED:,} events are released at once")
    try:
        return list(dict.fromkeys(map(UUID, given)))
    except ValueError:
        raise bad("id", given[0], "it is no id of an event") from None


async def gather(visit: Visit, choice: Choice) -> list[UUID]:
    """The parked events that fit a filter now."""
    if choice.state is not EventState.PARKED:
        raise bad("state", choice.state.value, "only parked events are released")
    ids: list[UUID] = []
    after: UUID | None = None
    while len(ids) < MOST_RELEASED:
        found = await _list(visit, choice, after, _GATHERED)
        ids += [event.event_id for event in found.events]
        after = found.after
        if after is None:
            break
    return ids


async def _list(visit: Visit, choice: Choice, after: UUID | None, most: int) -> EventPage:
    return await list_events(
        visit.ledger, topic=choice.topic, state=choice.state, since=choice.since, after=after, most=most
    )


def options(choice: Choice) -> list[str]:
    """The choice as a command takes it. Pure."""
    return [word for name, value in choice.given.items() for word in (f"--{name}", value)]


def counts_of(seen: Seen) -> Mapping[EventState, int]:
    """How many events were in each state at the last look; of those that are published nobody counts. Pure."""
    topics = () if seen.status is None else seen.status.overview.topics
    return {
        EventState.UNPUBLISHED: sum(topic.claimable + topic.scheduled for topic in topics),
        EventState.SCHEDULED: sum(topic.scheduled for topic in topics),
        EventState.UNROUTABLE: sum(topic.claimable for topic in topics if not topic.routable),
        EventState.PARKED: sum(topic.parked for topic in topics),
    }


ROUTES = (page("/outbox", show_outbox), deed("/outbox/release", release_events))
