"""What an operator is told of one look at everything."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from homing.operations.overview import (
    MOST,
    ConsumerState,
    Overview,
    ProcessState,
    QueueState,
    TopicState,
)
from homing.operations.verdict import Level, judge
from homing.queue.job import JobCounts

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def _topic(**changes: Any) -> TopicState:
    fields: dict[str, Any] = {
        "topic": "order.placed",
        "claimable": 0,
        "oldest_claimable_seconds": 0.0,
        "scheduled": 0,
        "parked": 0,
        "routable": True,
    }
    return TopicState(**(fields | changes))


def _consumer(**changes: Any) -> ConsumerState:
    fields: dict[str, Any] = {
        "consumer": "mail.send",
        "unsettled": 0,
        "overdue": 0,
        "oldest_unsettled_seconds": 0.0,
        "open_letters": 0,
        "subscribed": True,
    }
    return ConsumerState(**(fields | changes))


def _process(**changes: Any) -> ProcessState:
    fields: dict[str, Any] = {
        "id": "1",
        "host": "h",
        "pid": 1,
        "version": "1",
        "role": "worker",
        "routes": True,
        "consumers": ("mail.send",),
        "queues": ("mail",),
        "started_at": NOW,
        "silent_seconds": 1.0,
    }
    return ProcessState(**(fields | changes))


def _counts(**changes: int) -> JobCounts:
    names = ("waiting", "active", "delayed", "prioritized", "completed", "failed", "waiting_children")
    return JobCounts(**(dict.fromkeys(names, 0) | changes))


def _overview(**changes: Any) -> Overview:
    fields: dict[str, Any] = {"at": NOW, "topics": (), "consumers": (), "queues": (), "processes": (_process(),)}
    return Overview(**(fields | changes))


CASES: dict[str, tuple[Overview, Level, str]] = {
    "events wait and no relay lives": (
        _overview(topics=(_topic(claimable=3, oldest_claimable_seconds=14.0),), processes=()),
        Level.STALLED,
        "no relay lives",
    ),
    "events wait and a relay lives": (
        _overview(topics=(_topic(claimable=3, oldest_claimable_seconds=14.0),)),
        Level.STALLED,
        "the relay in process 1 on h lives and does not route it",
    ),
    "events wait and the relay was stopped in mid-air": (
        _overview(
            topics=(_topic(claimable=3, oldest_claimable_seconds=14.0),), processes=(_process(silent_seconds=14.0),)
        ),
        Level.STALLED,
        "the relay in process 1 on h has said nothing for 14s",
    ),
    "events wait and the relay says why": (
        _overview(
            topics=(_topic(claimable=3, oldest_claimable_seconds=14.0),),
            processes=(_process(state={"reasons": ["Redis does not answer"]}),),
        ),
        Level.STALLED,
        "it says: Redis does not answer",
    ),
    "a relay that has fallen silent is none": (
        _overview(
            topics=(_topic(claimable=3, oldest_claimable_seconds=14.0),), processes=(_process(silent_seconds=60.0),)
        ),
        Level.STALLED,
        "no relay lives",
    ),
    "an unknown topic": (
        _overview(topics=(_topic(claimable=3, oldest_claimable_seconds=99.0, routable=False),)),
        Level.ATTENTION,
        "topic order.placed: 3 events and no consumer: deploy the workers",
    ),
    "parked events": (_overview(topics=(_topic(parked=2),)), Level.ATTENTION, "homing events release"),
    "overdue deliveries": (_overview(consumers=(_consumer(overdue=1, unsettled=1),)), Level.STALLED, "overdue"),
    "a consumer nobody has": (
        _overview(consumers=(_consumer(unsettled=1, subscribed=False),)),
        Level.ATTENTION,
        "retired or unknown",
    ),
    "dead letters": (_overview(consumers=(_consumer(open_letters=MOST),)), Level.ATTENTION, "100,000 or more dead"),
    "jobs and no worker": (
        _overview(queues=(QueueState(queue="sms", counts=_counts(waiting=1)),)),
        Level.STALLED,
        "homing worker --queues sms",
    ),
    "a paused queue": (
        _overview(queues=(QueueState(queue="mail", counts=_counts(waiting=1), paused=True),)),
        Level.ATTENTION,
        "homing queues resume mail",
    ),
    "a worker that does not claim": (
        _overview(queues=(QueueState(queue="mail", counts=_counts(prioritized=1), oldest_waiting_seconds=12.0),)),
        Level.STALLED,
        "and none runs",
    ),
    "a queue whose partner asked for a pause": (
        _overview(
            queues=(
                QueueState(
                    queue="mail", counts=_counts(waiting=1), oldest_waiting_seconds=60.0, throttled_seconds=540.0
                ),
            )
        ),
        Level.ATTENTION,
        "may start in 9m",
    ),
    "the engine is away": (_overview(engine_error="Redis does not answer"), Level.STALLED, "nothing is lost"),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_wrong_is_said_with_its_remedy(name: str) -> None:
    """Every kind of standstill has its level, its numbers and what to do."""
    overview, level, words = CASES[name]
    verdict = judge(overview)
    assert verdict.level is level
    assert words in str(verdict.reasons[0])


def test_work_that_flows_needs_no_words() -> None:
    """Fresh events, running jobs and scheduled ones are no reason."""
    verdict = judge(
        _overview(
            topics=(_topic(claimable=5, oldest_claimable_seconds=0.2, scheduled=9),),
            consumers=(_consumer(unsettled=7),),
            queues=(QueueState(queue="mail", counts=_counts(waiting=5, active=2), oldest_waiting_seconds=30.0),),
        )
    )
    assert verdict.level is Level.FLOWING
    assert verdict.reasons == ()


@pytest.mark.parametrize(
    ("claimable", "moved_seconds", "relays", "level"),
    [
        (900, 0, 1, Level.ATTENTION),
        (1000, 3, 1, Level.ATTENTION),
        (1000, 0, 1, Level.STALLED),
        (2000, 0, 1, Level.STALLED),
        (900, 3, 0, Level.STALLED),
    ],
)
def test_a_backlog_that_moves_is_no_standstill(claimable: int, moved_seconds: int, relays: int, level: Level) -> None:
    """Late is what was routed from since the look before; what did not move, or has nobody to move it, stands still."""
    before = _topic(claimable=1000, oldest_claimable_seconds=50.0, oldest_claimable_at=NOW)
    now = NOW + timedelta(seconds=moved_seconds)
    topic = _topic(claimable=claimable, oldest_claimable_seconds=50.0, oldest_claimable_at=now)
    processes = (_process(),) * relays
    looks = [_overview(topics=(each,), processes=processes) for each in (before, topic)]
    assert judge(looks[1], looks[0]).level is level


def test_the_worst_comes_first() -> None:
    """A standstill is read before what only waits for a person."""
    verdict = judge(_overview(consumers=(_consumer(open_letters=1),), engine_error="Redis does not answer"))
    assert [reason.level for reason in verdict.reasons] == [Level.STALLED, Level.ATTENTION]
