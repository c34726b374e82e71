"""Waiting for ends: what the stream tells, what it cannot tell, and what is left of it, without a server."""

import asyncio
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self, cast

import pytest

from homing.client.ends import End, Ends
from homing.client.engines import DirectEngine
from homing.errors import ConfigurationError, JobGone, ServerUnavailable
from homing.ids import JobId
from homing.queue.following import EventsMissed, QueueEvent
from homing.queue.job import JobEnd, JobTrace

RUNNING, GONE = JobTrace(exists=True, name="job"), JobTrace(exists=False)
DONE = JobTrace(exists=True, name="job", finished=True)
FAILED = JobTrace(exists=True, name="job", finished=True, failed_reason="no paper")
JOB = JobId("a")


class Stream:
    """A stream that tells what the test puts into it; an error ends its connection."""

    def __init__(self, told: "asyncio.Queue[Any]") -> None:
        self._told = told

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        return None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> QueueEvent | EventsMissed:
        told = await self._told.get()
        if isinstance(told, Exception):
            raise told
        return cast("QueueEvent | EventsMissed", told)


class Server:
    """An engine that knows one job as the test says, and counts who looks."""

    def __init__(self, trace: JobTrace = RUNNING) -> None:
        self.trace = trace
        self.told: asyncio.Queue[Any] = asyncio.Queue()
        self.past: QueueEvent | None = None
        self.past_ms = 1
        self.now_ms = 50
        self.looks = 0
        self.streams = 0

    def follow(self, queue: str, *, after: str | None = None) -> Stream:
        self.streams += 1
        return Stream(self.told)

    async def inspect(self, queue: str, ids: Sequence[JobId]) -> list[JobTrace]:
        self.looks += 1
        return [self.trace]

    async def ends(self, queue: str, ids: Sequence[JobId]) -> list[JobEnd]:
        return [JobEnd(result="7")]

    async def find_end(self, queue: str, job_id: JobId, since_ms: int) -> QueueEvent | None:
        return self.past if since_ms <= self.past_ms else None


def event(kind: str, **fields: str) -> QueueEvent:
    return QueueEvent(id="1-0", at=None, kind=kind, job_id=JOB, fields=fields)


def waiting(server: Server, since_ms: int | None = 1) -> tuple[Ends, "asyncio.Task[End]"]:
    ends = Ends(cast("DirectEngine", server), "mail")
    return ends, asyncio.create_task(ends.end_of(JOB, since_ms))


async def looked(server: Server, times: int) -> None:
    """Let the waiter come to the place where it has looked so often."""
    while server.looks < times:  # noqa: ASYNC110 - turns of the event loop, no time
        await asyncio.sleep(0)
    for _ in range(5):
        await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("told", "end"),
    [
        (event("completed", returnvalue='{"a":1}'), End('{"a":1}')),
        (event("failed", failedReason="no"), End(None, "no")),
    ],
)
async def test_an_end_is_heard(told: QueueEvent, end: End) -> None:
    """A job that runs is waited for, and other things that happen to it end nothing."""
    server = Server()
    ends, answer = waiting(server)
    await looked(server, 1)
    server.told.put_nowait(event("active"))
    server.told.put_nowait(QueueEvent(id="1-1", at=None, kind="completed", job_id=JobId("other")))
    server.told.put_nowait(told)
    assert await answer == end
    await ends.close()


@pytest.mark.parametrize(("trace", "end"), [(DONE, End("7")), (FAILED, End(None, "no paper"))])
@pytest.mark.parametrize("word", [EventsMissed(after="1-0"), event("removed")])
async def test_what_the_stream_cannot_tell_is_looked_up(trace: JobTrace, end: End, word: object) -> None:
    """After a gap, and after a removal, the job is looked at again."""
    server = Server()
    ends, answer = waiting(server)
    await looked(server, 1)
    server.trace = trace
    server.told.put_nowait(word)
    assert await answer == end
    assert server.looks == 2
    await ends.close()


async def test_an_end_that_came_before_is_found() -> None:
    """In the job, or among the events since it was enqueued; where there is neither, that is the answer."""
    for trace, past, end in (
        (DONE, None, End("7")),
        (GONE, event("completed", returnvalue="8"), End("8")),
        (GONE, event("failed", failedReason="no"), End(None, "no")),
    ):
        server = Server(trace)
        server.past = past
        ends, answer = waiting(server)
        assert await answer == end
        await ends.close()
    for since_ms, past in ((1, None), (None, event("completed", returnvalue="8"))):
        server = Server(GONE)
        server.past = past
        ends, answer = waiting(server, since_ms)
        with pytest.raises(JobGone, match="no word of its end"):
            await answer
        await ends.close()


async def test_an_end_that_comes_while_one_looks_is_found() -> None:
    """Also of a job that is known by its id alone and is not kept: its end came after the waiting began, and before the look."""
    server = Server(GONE)
    server.past, server.past_ms = event("completed", returnvalue="8"), 51
    ends, answer = waiting(server, None)
    assert await answer == End("8")
    await ends.close()


async def test_one_stream_serves_all_who_wait() -> None:
    """Twenty that wait for one job share a connection, and the end reaches each."""
    server = Server()
    ends = Ends(cast("DirectEngine", server), "mail")
    answers = [asyncio.create_task(ends.end_of(JOB, 1)) for _ in range(20)]
    await looked(server, 20)
    server.told.put_nowait(event("completed", returnvalue="1"))
    assert await asyncio.gather(*answers) == [End("1")] * 20
    assert server.streams == 1
    await ends.close()


@pytest.mark.parametrize("when", ["before the stream stands", "while it waits"])
async def test_closing_ends_the_waiting(when: str) -> None:
    """Whoever waits hears that the client is closed, and is not cancelled in its place."""
    server = Server()
    ends, answer = waiting(server)
    if when == "while it waits":
        await looked(server, 1)
    else:
        await asyncio.sleep(0)
    await ends.close()
    with pytest.raises(ServerUnavailable, match="closed"):
        await answer


async def test_what_no_waiting_mends_is_told() -> None:
    """A wrong password is nobody's outage: those who wait get the error itself."""
    server = Server()
    ends, answer = waiting(server)
    await looked(server, 1)
    server.told.put_nowait(ConfigurationError("wrong password"))
    with pytest.raises(ConfigurationError, match="wrong password"):
        await answer
    await ends.close()
