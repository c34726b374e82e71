"""A run that is told to end before its handler begins never begins, whatever its handler is: its effect would be one too many."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any
from uuid import uuid4

import pytest

from homing import Event, Homing
from homing.app.resources import Provider
from homing.ids import JobId, LeaseToken
from homing.queue.job import ClaimedJob, Lease
from homing.worker.batch_calling import call_batch
from homing.worker.calling import Caller
from homing.worker.catalogue import Catalogue
from homing.worker.children.pool import Children
from homing.worker.endings import Raised
from homing.worker.opening import open_run
from homing.worker.run import Cause, Run


class Paid(Event, topic="told.paid", unrouted=True):
    amount: int = 1


def runs_of(function: Callable[..., Any], number: int, batch: int | None = None) -> list[Run]:
    """Runs of `function`, each of another job."""
    app = Homing("test")
    app.queue("mail").handler("send", on=Paid, at_least_once=True, batch=batch)(function)
    catalogue = Catalogue(app.handlers)
    opened = [open_run(_job(at), catalogue) for at in range(number)]
    runs = [run for run in opened if isinstance(run, Run)]
    assert len(runs) == number
    return runs


def _job(number: int) -> ClaimedJob:
    return ClaimedJob(
        lease=Lease("mail", JobId(f"job-{number}"), LeaseToken(f"t-{number}")),
        name="send",
        data=f'{{"eventId":"{uuid4()}","payload":{{}}}}',
        timestamp_ms=0,
        attempts=1,
        starts=1,
        attempts_made=0,
    )


@pytest.fixture
def caller() -> Caller:
    """Calls handlers that ask for nothing."""
    children: Children = None  # type: ignore[assignment]  # no handler of these tests has one
    return Caller(Provider(), 5.0, children, lambda _: None)


@pytest.mark.parametrize("cause", [Cause.LEASE_LOST, Cause.SHUTDOWN])
async def test_a_thread_does_not_enter_its_handler(caller: Caller, cause: Cause) -> None:
    """Nothing could end it afterwards."""
    entered: list[int] = []

    def send(event: Paid) -> None:
        entered.append(event.amount)

    (run,) = runs_of(send, 1)
    run.cancel(cause)
    ending = await caller.call(run)
    assert isinstance(ending, Raised)
    assert (ending.cause, ending.stuck) == (cause, False)
    assert isinstance(ending.error, asyncio.CancelledError)
    assert run.ended
    assert entered == []


@pytest.mark.parametrize("kind", ["async", "thread"])
async def test_a_batch_with_such_a_run_is_not_called(caller: Caller, kind: str) -> None:
    """It is over with its cause; the others are to be run alone."""
    entered: list[int] = []

    async def send(events: Sequence[Paid]) -> None:
        entered.append(len(events))

    def send_plainly(events: Sequence[Paid]) -> None:
        entered.append(len(events))

    runs = runs_of(send if kind == "async" else send_plainly, 3, batch=10)
    runs[1].cancel(Cause.LEASE_LOST)
    endings = await call_batch(runs, caller, None)
    assert isinstance(endings, dict)
    assert set(endings) == {1}
    ending = endings[1]
    assert isinstance(ending, Raised)
    assert (ending.cause, ending.stuck) == (Cause.LEASE_LOST, False)
    assert entered == []
