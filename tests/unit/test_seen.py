"""What is decided from what was read: states of events, owners of consumers, the pace between two looks, lines of a tail."""

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from io import StringIO
from typing import Any
from uuid import UUID

import pytest
from rich.console import Console

from homing.cli.status_screen import draw_status
from homing.cli.tail import describe
from homing.operations.consumers import Consumer, put_together
from homing.operations.events import EventLine, EventState
from homing.operations.following import Happening
from homing.operations.overview import ConsumerState, Overview, ProcessState, QueueState, TopicState
from homing.operations.pace import OpenWork, reckon
from homing.operations.status import Failing, Status, Total
from homing.operations.verdict import judge
from homing.queue.job import JobCounts

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)


def event(**changes: Any) -> EventLine:
    fields: dict[str, Any] = {"event_id": UUID(int=1), "topic": "t", "aggregate_id": None, "created_at": NOW}
    fields |= {"available_at": NOW, "published_at": None, "parked_error": None, "routable": True}
    return EventLine(**(fields | changes))


@pytest.mark.parametrize(
    ("changes", "state"),
    [
        ({}, EventState.UNPUBLISHED),
        ({"available_at": LATER}, EventState.SCHEDULED),
        ({"available_at": LATER, "routable": False}, EventState.SCHEDULED),
        ({"routable": False}, EventState.UNROUTABLE),
        ({"parked_error": "no object", "routable": False}, EventState.PARKED),
        ({"published_at": NOW, "routable": False}, EventState.PUBLISHED),
    ],
)
def test_an_event_is_in_the_narrowest_state_that_fits(changes: dict[str, Any], state: EventState) -> None:
    """Routed before parked before scheduled before unroutable before waiting."""
    assert event(**changes).state(NOW) is state


def route(consumer: str, **changes: Any) -> dict[str, Any]:
    fields = {"topic": "t", "consumer": consumer, "queue": "q", "job_name": "j", "mode": "tx", "aliases": []}
    return fields | {"registered_at": NOW, "retired_at": None} | changes


def work(consumer: str, unsettled: int) -> ConsumerState:
    return ConsumerState(
        consumer=consumer,
        unsettled=unsettled,
        overdue=0,
        oldest_unsettled_seconds=1.0,
        open_letters=0,
        subscribed=True,
    )


def process(pid: int, *consumers: str, silent_seconds: float = 1.0, role: str = "worker") -> ProcessState:
    return ProcessState(
        id=str(pid),
        host="h",
        pid=pid,
        version="1",
        role=role,
        routes=True,
        consumers=consumers,
        queues=("q",),
        started_at=NOW,
        silent_seconds=silent_seconds,
    )


def one(consumers: tuple[Consumer, ...], name: str) -> Consumer:
    (found,) = (consumer for consumer in consumers if consumer.name == name)
    return found


def test_a_consumer_is_owned_by_the_live_workers_that_know_it() -> None:
    """Silent ones and relays own nothing; a name that a live handler says was its own once is owned by that handler's workers."""
    found = put_together(
        [
            route("q.new", aliases=["q.old"]),
            route("q.dead"),
            route("q.node", mode="foreign"),
            route("q.gone", retired_at=NOW),
        ],
        [work("q.old", 3), work("q.stray", 2)],
        [process(1, "q.new"), process(2, "q.new", "q.dead", silent_seconds=60), process(3, "q.dead", role="relay")],
    )
    assert [consumer.name for consumer in found] == ["q.dead", "q.gone", "q.new", "q.node", "q.old", "q.stray"]
    assert one(found, "q.new").owners == ("h:1",)
    assert one(found, "q.old").owners == ("h:1",)
    assert [consumer.name for consumer in found if consumer.is_unowned] == ["q.dead", "q.stray"]
    assert one(found, "q.gone").retired_at == NOW


def test_a_consumer_is_retired_when_all_its_routes_are() -> None:
    """One topic left makes it active, and then nobody's when nobody lives; with open work it is nobody's even when retired."""
    routes = [route("q.a", topic="one", retired_at=NOW), route("q.a", topic="two")]
    (partly,) = put_together(routes, [], [])
    assert (partly.retired_at, partly.is_unowned) == (None, True)
    (gone,) = put_together([route("q.a", retired_at=NOW)], [work("q.a", 1)], [])
    assert (gone.retired_at, gone.is_unowned) == (NOW, True)


def look(at: datetime, **unsettled: int) -> OpenWork:
    return OpenWork(at=at, unsettled=unsettled, horizons=dict.fromkeys(unsettled, at), last_letter=0)


def test_the_pace_counts_what_left_and_what_came_and_went() -> None:
    """Old work that is gone plus new work that is settled already, by the time between the looks; never less than nothing."""
    first, second = look(NOW, a=100, b=5), look(NOW + timedelta(seconds=2), a=90, c=1)
    paces = reckon(first, second, still={"a": 60, "b": 7}, fresh={"a": 20, "d": 4}, died={"d": 2})
    seen = {pace.consumer: (pace.settled_per_second, pace.dead_per_second, pace.unsettled) for pace in paces}
    assert seen == {"a": (30.0, 0.0, 90), "b": (0.0, 0.0, 0), "c": (0.0, 0.0, 1), "d": (2.0, 1.0, 0)}


HOSTILE = "\x1b[2Jred\x1b]0;title\x07\x9b2J[red]x[/red]\r\n"


def test_a_terminal_obeys_nothing_but_our_colours() -> None:
    """On a terminal the screen has colours, and no other control sequence, whatever topics, consumers, hosts and errors are called."""
    topic = TopicState(topic=HOSTILE, claimable=1, oldest_claimable_seconds=99.0, scheduled=0, parked=1, routable=False)
    overview = Overview(
        at=NOW,
        topics=(topic,),
        consumers=(work(HOSTILE, 1),),
        queues=(QueueState(queue=HOSTILE, counts=JobCounts(waiting=1)),),
        processes=(replace(process(1, HOSTILE), host=HOSTILE, version=HOSTILE),),
    )
    status = Status(
        overview=overview,
        verdict=judge(overview),
        failing=(Failing(consumer=HOSTILE, error_class=HOSTILE, deaths=1, open=1, newest_seconds=1.0, letter=1),),
        consumers=put_together([route(HOSTILE)], overview.consumers, ()),
        totals=(Total(table="events", rows=1, about=True),),
    )
    screen = StringIO()
    Console(file=screen, force_terminal=True, color_system="standard", width=120, markup=False).print(
        draw_status(status)
    )
    drawn = screen.getvalue()
    assert "\x1b[1;31mSTALLED" in drawn
    assert "[red]x[/red]" in drawn
    left = re.sub(r"\x1b\[[0-9;]*m", "", drawn)
    assert {letter for letter in left if ord(letter) < 32 or 0x7F <= ord(letter) < 0xA0} == {"\n"}


def test_a_line_of_a_tail_is_one_line_whatever_it_tells() -> None:
    """Line breaks, control characters and a megabyte of text make no second line and nothing that a terminal obeys."""
    hostile = "\x1b[31mred\x1b[0m\r\n\x9b2J" + "x" * 1_000_000
    said = describe(Happening(at=NOW, kind="dead", subject=hostile, id=hostile, text=hostile))
    assert len(said) < 600
    assert not any(ord(letter) < 32 or 0x7F <= ord(letter) < 0xA0 for letter in said)
