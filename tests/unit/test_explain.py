"""Why is it not running: every reason from the facts that make it, and what an operator is told to do."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from homing.ids import JobId
from homing.operations.explain import Because, DeliveryFacts, EventFacts, Facts, JobFacts, LetterFacts
from homing.operations.explain_job import explain
from homing.operations.overview import ProcessState
from homing.operations.waiting_children import ChildFacts, ChildrenFacts
from homing.queue.browse import JobState, ListedJob, QueueTerms, ShownJob
from homing.queue.parent import JobRef
from homing.queue.port import Limit

NOW = datetime(2026, 1, 1, tzinfo=UTC)
AGO, SOON = NOW - timedelta(minutes=3), NOW + timedelta(minutes=3)


def listed(name: str, state: JobState | None) -> ListedJob:
    return ListedJob(id=JobId(name), name=None if state is None else "ship", state=state)


EVENT = EventFacts(
    topic="order.placed",
    created_at=AGO,
    available_at=AGO,
    published_at=None,
    parked_error=None,
    is_due=True,
    subscribers=("work.do",),
)
LETTER = LetterFacts(id=7, kind="failed", failed_at=AGO, error="ValueError: no", closed_as=None)
PENDING = DeliveryFacts(
    consumer="work.do",
    queue="work",
    generation=1,
    opened_at=AGO,
    check_at=SOON,
    vanished=0,
    outcome=None,
    settled_at=None,
    is_older=False,
    names=frozenset({"work.do"}),
    retired_at=None,
    is_foreign=False,
    deadline_at=SOON,
    letter=None,
)
CHILDREN = ChildrenFacts(
    count=7,
    pending=5,
    some=(
        ChildFacts(ref=JobRef("parcels", JobId("a")), job=listed("a", JobState.WAITING), is_paused=True),
        ChildFacts(ref=JobRef("parcels", JobId("b")), job=listed("b", JobState.DELAYED), is_parked=True),
        ChildFacts(ref=JobRef("parcels", JobId("c")), job=listed("c", JobState.FAILED)),
        ChildFacts(ref=JobRef("parcels", JobId("d")), job=listed("d", None)),
        ChildFacts(ref=JobRef("", JobId("other:e")), job=listed("e", None)),
    ),
)
DEAD = replace(PENDING, outcome="dead", settled_at=AGO, letter=LETTER)


def process(*consumers: str, queue: str = "work", silent_seconds: float = 1.0, routes: bool = True) -> ProcessState:
    return ProcessState(
        id="1",
        host="here",
        pid=1,
        version="1",
        role="worker",
        routes=routes,
        consumers=consumers,
        queues=(queue,),
        started_at=AGO,
        silent_seconds=silent_seconds,
    )


def job(state: JobState | None, **fields: object) -> ShownJob:
    return ShownJob(id=JobId("x"), name="do", state=state, added_at=AGO, **fields)  # type: ignore[arg-type]  # only those that matter


def engine(state: JobState | None, terms: QueueTerms | None = None, running: int = 0, **fields: object) -> JobFacts:
    return JobFacts(job=job(state, **fields), terms=terms or QueueTerms(), running=running)


def facts(**known: object) -> Facts:
    return Facts(**{"now": NOW, "queue": "work", "processes": (process("work.do"),), **known})  # type: ignore[arg-type]  # only those that matter


WAITS = engine(JobState.WAITING, ahead=2)
TABLE: list[tuple[list[Because], Facts, str]] = [
    ([Because.EVENT_PARKED], facts(event=replace(EVENT, parked_error="no object")), "homing events release"),
    ([Because.SCHEDULED], facts(event=replace(EVENT, is_due=False, available_at=SOON)), "nothing"),
    ([Because.UNROUTABLE], facts(event=replace(EVENT, subscribers=())), "deploy the workers"),
    ([Because.NO_RELAY], facts(event=EVENT, processes=()), "homing relay"),
    ([Because.NO_RELAY], facts(event=EVENT, processes=(process(silent_seconds=60),)), "homing relay"),
    ([Because.NOT_ROUTED], facts(event=EVENT), "relay's log"),
    ([Because.NOT_DELIVERED], facts(event=replace(EVENT, published_at=AGO)), "homing backfill"),
    ([Because.DONE], facts(delivery=replace(PENDING, outcome="done", settled_at=AGO), engine=WAITS), "nothing"),
    ([Because.CANCELLED], facts(delivery=replace(PENDING, outcome="cancelled", settled_at=AGO)), "record its event"),
    ([Because.DEAD], facts(delivery=DEAD, engine=engine(JobState.FAILED, mark="dead:7")), "homing redrive --id 7"),
    ([Because.DEAD], facts(delivery=DEAD, engine=engine(JobState.WAITING, mark="dead:6")), "homing redrive --id 7"),
    ([Because.DEAD], facts(delivery=replace(DEAD, letter=replace(LETTER, closed_as="dismissed"))), "a person decided"),
    ([Because.DEAD], facts(delivery=replace(DEAD, letter=None)), "record its event"),
    (
        [Because.ADOPTED_SOON, Because.IN_LINE],
        facts(delivery=DEAD, engine=engine(JobState.WAITING, mark="dead:7")),
        "nothing",
    ),
    (
        [Because.SUPERSEDED, Because.IN_LINE],
        facts(delivery=replace(PENDING, generation=2), generation=1, engine=WAITS),
        "newest",
    ),
    ([Because.NEVER_OPENED, Because.DONE], facts(delivery=replace(PENDING, outcome="done"), generation=3), "backups"),
    ([Because.HELD, Because.IN_LINE], facts(delivery=replace(PENDING, is_held=True), engine=WAITS), "pg_stat_activity"),
    ([Because.RETIRED, Because.IN_LINE], facts(delivery=replace(PENDING, retired_at=AGO), engine=WAITS), "jobs cancel"),
    (
        [Because.EXPIRED, Because.IN_LINE],
        facts(delivery=replace(PENDING, deadline_at=AGO), engine=WAITS),
        "homing redrive",
    ),
    ([Because.ENGINE_AWAY], facts(delivery=PENDING, engine_error="Redis does not answer"), "start it again"),
    ([Because.NO_JOB], facts(delivery=PENDING, engine=JobFacts(job=None)), "nothing"),
    ([Because.NO_JOB], facts(delivery=PENDING, engine=JobFacts(job=None), processes=()), "homing relay"),
    ([Because.NO_JOB], facts(delivery=replace(PENDING, is_older=True), engine=JobFacts(job=None)), "HOMING_LOOK_RATE"),
    ([Because.GHOST], facts(delivery=PENDING, engine=JobFacts(job=replace(job(None), name=None))), "nothing"),
    ([Because.ADRIFT], facts(delivery=replace(PENDING, vanished=2), engine=engine(None)), "nothing"),
    ([Because.ADRIFT], facts(engine=engine(None)), "add it again"),
    ([Because.UNSETTLED_END], facts(delivery=PENDING, engine=engine(JobState.COMPLETED)), "next look"),
    ([Because.UNSETTLED_END], facts(delivery=PENDING, engine=engine(JobState.FAILED)), "next look"),
    ([Because.COMPLETED], facts(engine=engine(JobState.COMPLETED)), "nothing"),
    ([Because.FAILED], facts(engine=engine(JobState.FAILED, reason="no")), "homing jobs retry"),
    ([Because.RUNNING], facts(delivery=PENDING, engine=engine(JobState.ACTIVE, lease_seconds=9.0)), "time-out"),
    ([Because.LEASE_LOST], facts(delivery=PENDING, engine=engine(JobState.ACTIVE)), "takes it back"),
    ([Because.CHILDREN], facts(delivery=PENDING, engine=engine(JobState.WAITING_CHILDREN)), "children|within a minute"),
    (
        [Because.CHILDREN, Because.PAUSED, Because.PARKED, Because.FAILED, Because.NO_JOB],
        facts(delivery=PENDING, engine=replace(engine(JobState.WAITING_CHILDREN), children=CHILDREN)),
        "5 of its 7 children: a .waiting, in queue parcels., b .delayed.*under another key prefix|explain each",
    ),
    ([Because.DELAYED], facts(delivery=PENDING, engine=engine(JobState.DELAYED, due_at=SOON)), "nothing"),
    (
        [Because.RETRY_DUE],
        facts(delivery=PENDING, engine=engine(JobState.DELAYED, due_at=SOON, attempts_made=1, attempts=8)),
        "homing jobs promote",
    ),
    (
        [Because.PARKED, Because.UNKNOWN_TO_WORKERS],
        facts(
            delivery=PENDING,
            engine=replace(engine(JobState.DELAYED, due_at=SOON), is_parked=True),
            processes=(process("other"),),
        ),
        "deploy the code",
    ),
    (
        [Because.PAUSED, Because.IN_LINE],
        facts(delivery=PENDING, engine=engine(JobState.WAITING, QueueTerms(paused=True))),
        "homing queues resume work",
    ),
    (
        [Because.LIMITED, Because.IN_LINE],
        facts(engine=engine(JobState.PRIORITIZED, QueueTerms(limit=Limit(4, 1.0), throttled_seconds=9))),
        "homing queues limit work",
    ),
    (
        [Because.FULL, Because.IN_LINE],
        facts(engine=engine(JobState.WAITING, QueueTerms(concurrency=4), running=4)),
        "--concurrency",
    ),
    ([Because.NO_WORKER, Because.IN_LINE], facts(engine=WAITS, processes=()), "homing worker --queues work"),
    (
        [Because.NO_WORKER, Because.IN_LINE],
        facts(engine=WAITS, processes=(process("work.do", queue="other"),)),
        "homing worker --queues work",
    ),
    (
        [Because.UNKNOWN_TO_WORKERS, Because.IN_LINE],
        facts(delivery=PENDING, engine=WAITS, processes=(process("work.other"),)),
        "alias",
    ),
    (
        [Because.FOREIGN, Because.IN_LINE],
        facts(delivery=replace(PENDING, is_foreign=True), engine=WAITS, processes=()),
        "that system's workers",
    ),
    (
        [Because.IN_LINE],
        facts(
            delivery=replace(PENDING, names=frozenset({"work.do", "new"})), engine=WAITS, processes=(process("new"),)
        ),
        "more workers",
    ),
]


@pytest.mark.parametrize(
    ("expected", "found", "remedy"), TABLE, ids=[f"{at}-{row[0][0].value}" for at, row in enumerate(TABLE)]
)
def test_each_reason_comes_from_its_facts(expected: list[Because], found: Facts, remedy: str) -> None:
    """The reasons in their order, each with words, and the deciding one with what to do about it."""
    reasons = explain(found)
    assert [reason.because for reason in reasons] == expected
    assert any(part in reasons[0].remedy for part in remedy.split("|"))
    assert all(reason.text and reason.remedy for reason in reasons)


def test_every_reason_is_given_by_some_facts() -> None:
    """No reason is declared that nothing leads to, and the table misses none."""
    assert {because for expected, _, _ in TABLE for because in expected} == set(Because)


def test_the_texts_name_what_was_found() -> None:
    """Times to come, attempts, the error, and the number of jobs that are claimed before it."""
    delayed = facts(
        delivery=PENDING,
        engine=engine(JobState.DELAYED, due_at=SOON, attempts_made=2, attempts=8, reason="Timeout: slow"),
    )
    (retry,) = explain(delayed)
    assert retry.text == "attempt 2 of 8 failed, the next is due in 3m: Timeout: slow"
    assert retry.until == SOON
    lines = [explain(facts(engine=engine(JobState.WAITING, ahead=ahead)))[0].text for ahead in (None, 0, 1, 1200)]
    assert lines == [
        "it waits in queue work: its turn has not come",
        "it waits in queue work: it is next",
        "it waits in queue work: one job is claimed before it",
        "it waits in queue work: 1,200 jobs are claimed before it",
    ]
