"""Calling a handler: whatever it does is this run's own ending."""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from homing import Event, Homing, PermanentError
from homing.errors import AttemptTimeout
from homing.ids import JobId, LeaseToken
from homing.queue.job import ClaimedJob, Lease
from homing.worker import endings
from homing.worker.calling import call_handler
from homing.worker.catalogue import Catalogue
from homing.worker.endings import Raised, Returned
from homing.worker.opening import open_run
from homing.worker.run import Cause, Run

EVENT = UUID("0197f1de-7c2b-7cc3-98a1-0f5a3a4c5d6e")


class Paid(Event, topic="calling.paid", unrouted=True):
    amount: int = 1


def run_of(function: Callable[..., Any]) -> Run:
    """A run of `function`."""
    app = Homing("test")
    app.queue("mail").handler("send", on=Paid, at_least_once=True)(function)
    job = ClaimedJob(
        lease=Lease("mail", JobId("17"), LeaseToken("t")),
        name="send",
        data=f'{{"eventId":"{EVENT}","payload":{{}}}}',
        timestamp_ms=0,
        attempts=1,
        starts=1,
        attempts_made=0,
    )
    run = open_run(job, Catalogue(app.handlers))
    assert isinstance(run, Run)
    return run


async def returning(value: object) -> Returned | Raised:
    """What becomes of a handler that returns `value`."""

    async def send(event: Paid) -> object:
        return value

    return await call_handler(run_of(send), {}, 5)


async def test_a_result_is_kept_as_json() -> None:
    """What a handler returns is written down once, as text."""
    assert await returning({"captured": ["a", 1, None]}) == Returned('{"captured":["a",1,null]}')
    assert await returning(None) == Returned("null")


class Detached(dict[str, int]):
    """A mapping whose values cannot be read any more."""

    def items(self) -> Any:
        raise RuntimeError("its session is closed")


def nested(depth: int) -> list[Any]:
    """A list in a list in a list."""
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    "value",
    [
        object(),
        {"id": EVENT},
        float("nan"),
        {("a", "b"): 1},
        nested(100_000),
        nested(300),
        "\x00",
        ["\ud800"],
        {"\x00": 1},
        Detached(id=1),
    ],
    ids=["object", "uuid", "nan", "key", "endless", "deep", "nul", "surrogate", "nul key", "detached"],
)
async def test_a_result_that_cannot_be_kept_is_permanent(value: object) -> None:
    """A result that JSON or jsonb refuses is the handler's mistake: it must not fail the settles of its neighbours."""
    ending = await returning(value)
    assert isinstance(ending, Raised)
    assert isinstance(ending.error, PermanentError)
    assert "the handler returned" in str(ending.error)


@pytest.mark.parametrize("error", [ValueError("x"), SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError()])
async def test_whatever_is_raised_is_contained(error: BaseException) -> None:
    """No error of a handler reaches the worker as anything but a value."""

    async def send(event: Paid) -> None:
        raise error

    ending = await call_handler(run_of(send), {}, 5)
    assert isinstance(ending, Raised)
    assert type(ending.error) is type(error)
    assert ending.cause is None


async def test_a_call_that_does_not_fit_is_contained() -> None:
    """Arguments that the function does not take are an error of this run."""

    async def send(event: Paid) -> None:
        """Send."""

    ending = await call_handler(run_of(send), {"nobody": 1}, 5)
    assert isinstance(ending, Raised)
    assert isinstance(ending.error, TypeError)


async def test_a_run_past_its_time_is_told_apart() -> None:
    """A time-out of ours has its cause and its length; what the handler raised then is underneath."""

    async def send(event: Paid) -> None:
        await asyncio.Event().wait()

    ending = await call_handler(run_of(send), {}, 0.01)
    assert isinstance(ending, Raised)
    assert ending.cause is Cause.TIMEOUT
    assert isinstance(ending.error, AttemptTimeout)
    assert str(ending.error) == "the run took longer than 0.01 s"
    assert isinstance(ending.error.__cause__, asyncio.CancelledError)


async def test_a_run_that_succeeds_although_told_to_end_has_succeeded() -> None:
    """The effect happened: calling it a failure would make it happen again."""

    async def send(event: Paid) -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "done all the same"
        return "never"

    assert await call_handler(run_of(send), {}, 0.01) == Returned('"done all the same"')


async def test_a_run_that_was_cancelled_before_it_began_never_begins() -> None:
    """A lease lost while the gate was asked: the handler is not entered, and no coroutine is left unawaited."""
    entered: list[int] = []

    async def send(event: Paid) -> None:
        entered.append(1)

    run = run_of(send)
    run.cancel(Cause.LEASE_LOST)
    ending = await call_handler(run, {}, 5)
    assert isinstance(ending, Raised)
    assert ending.cause is Cause.LEASE_LOST
    assert entered == []


async def test_a_run_that_will_not_end_is_left_and_shown(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A handler that swallows its cancellation keeps no slot for ever, and the log has its stack."""
    monkeypatch.setattr(endings, "LETTING_GO_SECONDS", 0.05)
    released = asyncio.Event()

    async def send(event: Paid) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            await released.wait()
        await released.wait()

    ending = await call_handler(run_of(send), {}, 0.01)
    released.set()
    assert isinstance(ending, Raised)
    assert ending.stuck
    assert ending.cause is Cause.TIMEOUT
    (record,) = caplog.records
    assert "was told to end and has not" in record.getMessage()
    assert "await released.wait()" in record.getMessage()
    await asyncio.wait([task for task in asyncio.all_tasks() if task.get_name() == "run:17"], timeout=60)
