"""From claim to end: what goes wrong around a run costs neither its slot nor the job that follows."""

import asyncio
import json
import logging
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import AsyncMock, Mock, patch
from uuid import UUID

import pytest

from homing import Event, Homing
from homing.clock import SystemClock
from homing.ids import JobId, LeaseToken
from homing.ledger.gate import Run as MayRun
from homing.metrics import Metrics
from homing.queue.job import ClaimedJob, Lease
from homing.queue.outcome import GivenBack
from homing.queue.port import Completion, Finished, Held, Idle
from homing.worker.catalogue import Catalogue
from homing.worker.counting import RunCounter
from homing.worker.endings import Returned
from homing.worker.executor import Executor
from homing.worker.run import Cause
from homing.worker.slot import Owner
from tests.waiting import until

EVENT = UUID("0197f1de-7c2b-7cc3-98a1-0f5a3a4c5d6e")


class Paid(Event, topic="executor.paid", unrouted=True):
    amount: int = 1


def job(number: int) -> ClaimedJob:
    """A job that no relay made."""
    return ClaimedJob(
        lease=Lease("mail", JobId(f"job-{number}"), LeaseToken(f"t-{number}")),
        name="send",
        data=json.dumps({"eventId": str(EVENT), "payload": {}}),
        timestamp_ms=0,
        attempts=1,
        starts=1,
        attempts_made=0,
    )


class Lane:
    """Whose slots they are."""

    queue = "mail"
    together = 1

    def __init__(self) -> None:
        self.answers: list[Finished | None] = []

    def returned(self, count: int, *, waiting: bool = False) -> None:
        """Its slot is free."""

    def ask(self, ends: int) -> None:
        """Nothing more is wanted."""

    def heard(self, wanted: object) -> None:
        """Nothing was."""

    def left(self, ends: Sequence[Finished | None], **_: object) -> None:
        """Remember what was heard."""
        self.answers += ends


class Surrounded:
    """An executor, its lane and its leases; nothing else of it is real where a test does not say so."""

    def __init__(self, spans: Any) -> None:
        app = Homing("test")

        @app.queue("mail").handler("send", on=Paid, at_least_once=True)
        async def send(event: Paid) -> None:
            """Send."""

        async def may_run(cases: Sequence[object]) -> list[MayRun]:
            return [MayRun() for _ in cases]

        async def complete(each: Completion, *_: object, **__: object) -> Finished:
            return Finished(Held.HELD, Idle())

        self.lane, self.leases, self.caller, self.judge = Lane(), Mock(), Mock(), Mock()
        self.caller.begin.side_effect = lambda run, context, on_end: on_end(Returned("null"))
        self.judge.judge = AsyncMock(return_value=GivenBack("the worker stops"))
        release = AsyncMock(return_value=Held.HELD)
        no_ledger: Any = SimpleNamespace(clock_offset_seconds=0.0)
        self.counter = RunCounter(Metrics("test"), SystemClock(), no_ledger)
        self.executor = Executor(
            engine=cast("Any", SimpleNamespace(complete=complete, release=release)),
            catalogue=Catalogue(app.handlers),
            guarantees={},
            gate=cast("Any", SimpleNamespace(ask_all=may_run)),
            settler=cast("Any", SimpleNamespace(settle_surely=AsyncMock())),
            caller=self.caller,
            judge=self.judge,
            leases=self.leases,
            ledger_id=EVENT,
            clock=SystemClock(),
            counter=self.counter,
            spans=spans,
            ticker=cast("Any", SimpleNamespace(follow=AsyncMock(side_effect=lambda job: job))),
            on_interrupted=Mock(),
        )

    async def run(self, *jobs: ClaimedJob) -> list[Finished | None]:
        """Begin the jobs together, and wait for their ends."""
        self.executor.begin(jobs, cast("Owner", self.lane))
        await until(lambda: len(self.lane.answers) == len(jobs))
        return self.lane.answers


async def test_what_cannot_be_begun_costs_no_slot(caplog: pytest.LogCaptureFixture) -> None:
    """A tracer of the application's that fails must not keep the slots and the leases of a claim for ever."""
    spans = Mock()
    spans.start.side_effect = [RuntimeError("no tracer"), None]
    around = Surrounded(spans)
    first, second = job(1), job(2)
    assert sorted(await around.run(first, second), key=str) == [Finished(Held.HELD, Idle()), None]
    dropped = {lease for call in around.leases.drop.call_args_list for lease in call.args[0]}
    assert dropped == {first.lease, second.lease}
    assert "a slot of mail failed" in caplog.text


async def test_what_is_claimed_while_the_worker_stops_is_given_back() -> None:
    """A claim that was on its way when the runs were told to end brings no run that nobody tells."""
    spans = Mock()
    spans.start.return_value = None
    around = Surrounded(spans)
    around.executor.cancel_all(Cause.SHUTDOWN)
    assert await around.run(job(1)) == [Finished(Held.HELD)]
    (run, ending), _ = around.judge.judge.call_args
    assert (run.cause, ending.cause) == (Cause.SHUTDOWN, Cause.SHUTDOWN)
    around.caller.begin.assert_not_called()


@pytest.fixture
def broken_log() -> Iterator[None]:
    """A filter of the application's log that fails."""

    def fail(_: logging.LogRecord) -> bool:
        raise RuntimeError("no such field")

    log = logging.getLogger("homing.worker")
    level = log.level
    log.setLevel(logging.INFO)
    log.addFilter(fail)
    yield
    log.removeFilter(fail)
    log.setLevel(level)


@pytest.mark.usefixtures("broken_log")
async def test_what_was_claimed_with_an_end_begins_although_its_line_failed() -> None:
    """The answers of the engine carry the next jobs: nobody else will begin them. The runs are counted, and the failure is the loop's to tell."""
    spans, told = Mock(), list[object]()
    spans.start.return_value = None
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context.get("exception")))
    around = Surrounded(spans)
    with patch.object(around.counter, "count_completed") as counted:
        assert await around.run(job(1), job(2)) == [Finished(Held.HELD, Idle())] * 2
        await until(lambda: sum(len(call.args[0]) for call in counted.call_args_list) == 2)
    assert [str(each) for each in told] == ["no such field"] * counted.call_count
