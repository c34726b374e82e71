"""Waiting for the end of jobs: one stream of events for all that wait in a queue, and a look at the job wherever the stream cannot tell."""

import asyncio
import logging
from collections import defaultdict
from dataclasses import dataclass

from homing.client.engines import DirectEngine
from homing.errors import JobGone, ServerUnavailable
from homing.ids import JobId
from homing.queue.following import EventsMissed, QueueEvent

log = logging.getLogger("homing.client")

LINGER_SECONDS = 30.0
"""How long the stream of a queue stays open when nobody waits any more: most who ask once ask again."""

AGAIN_SECONDS = 0.5
"""How long an engine that is away is left alone."""


@dataclass(frozen=True, slots=True)
class End:
    """How a job ended: with a result (JSON text), or with the reason of its failure."""

    result: str | None
    reason: str = ""


class Ends:
    """The ends of one queue's jobs, for those who wait for them. Belongs to one event loop."""

    def __init__(self, engine: DirectEngine, queue: str) -> None:
        self._engine = engine
        self._queue = queue
        self._waiting: dict[JobId, set[asyncio.Future[End | None]]] = defaultdict(set)
        self._following: asyncio.Task[None] | None = None
        self._opened = asyncio.Event()
        self._farewell: asyncio.TimerHandle | None = None
        self._is_closed = False

    async def end_of(self, job_id: JobId, since_ms: int | None) -> End:
        """Wait for the end of a job, which may have come already; `JobGone` when there is no such job and no word of its end.

        `since_ms`: when it was enqueued, so that the end of a job that was not kept is found among the events since; where that is not known,
        those since the waiting began. Nothing is missed: the stream stands before the job is looked at, and after a gap in it the job is looked
        at again.
        """
        while True:
            self._begin()
            told: asyncio.Future[End | None] = asyncio.get_running_loop().create_future()
            self._waiting[job_id].add(told)
            try:
                await self._until_opened()
                since_ms = self._engine.now_ms if since_ms is None else since_ms
                end = await self._look(job_id, since_ms) or await told
            finally:
                self._leave(job_id, told)
            if end is not None:
                return end

    async def close(self) -> None:
        """Stop; those who wait hear that their connection is closed."""
        self._is_closed = True
        if self._farewell is not None:
            self._farewell.cancel()
        following, self._following = self._following, None
        if following is not None:
            following.cancel()
            await asyncio.wait({following})
        self._fail(self._closed())

    # ── Looking ─────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _look(self, job_id: JobId, since_ms: int) -> End | None:
        """What the engine knows of the job, as soon as it answers; `None` while the job has not ended."""
        while True:
            try:
                return await self._ask(job_id, since_ms)
            except ServerUnavailable as error:
                if self._is_closed:
                    raise
                log.debug("waiting for the end of job %s: %s", job_id, error)
                await asyncio.sleep(AGAIN_SECONDS)

    async def _ask(self, job_id: JobId, since_ms: int) -> End | None:
        (trace,) = await self._engine.inspect(self._queue, [job_id])
        if trace.exists and not trace.finished:
            return None
        if trace.failed_reason is not None:
            return End(None, trace.failed_reason)
        (left,) = await self._engine.ends(self._queue, [job_id]) if trace.exists else (None,)
        if left is not None and left.result is not None:
            return End(left.result)
        event = await self._engine.find_end(self._queue, job_id, since_ms)
        if event is None:
            raise JobGone(
                f"queue {self._queue} has no job {str(job_id)!r} and no word of its end: it was removed, or ended longer ago than is kept "
                "(keep_completed, keep_failed)"
            )
        return _end_told(event)

    # ── Listening ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _begin(self) -> None:
        if self._farewell is not None:
            self._farewell.cancel()
            self._farewell = None
        if self._following is None:
            self._opened.clear()
            self._following = asyncio.create_task(self._follow(), name=f"homing:ends:{self._queue}")
            self._following.add_done_callback(_retrieve)

    async def _until_opened(self) -> None:
        """Wait until the stream stands, or for what keeps it from standing for good."""
        following, opened = self._following, asyncio.ensure_future(self._opened.wait())
        assert following is not None  # noqa: S101 - begun by whoever waits
        try:
            await asyncio.wait({following, opened}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            opened.cancel()
        if following.cancelled():
            raise self._closed()
        if following.done():
            following.result()

    async def _follow(self) -> None:
        try:
            while True:
                try:
                    await self._listen()
                except ServerUnavailable as error:
                    log.debug("the events of queue %s: %s", self._queue, error)
                    await asyncio.sleep(AGAIN_SECONDS)
        except Exception as error:
            self._following = None
            self._fail(error)
            raise

    async def _listen(self) -> None:
        async with self._engine.follow(self._queue) as stream:
            self._opened.set()
            async for told in stream:
                if isinstance(told, EventsMissed):
                    self._tell_all_to_look()
                elif told.job_id in self._waiting:
                    self._tell(told)

    def _tell(self, event: QueueEvent) -> None:
        """An end is one; a job that was removed, or is run again, is looked at."""
        if event.job_id is None or event.kind not in ("completed", "failed", "removed"):
            return
        end = None if event.kind == "removed" else _end_told(event)
        for told in self._waiting[event.job_id]:
            if not told.done():
                told.set_result(end)

    def _tell_all_to_look(self) -> None:
        for waiting in self._waiting.values():
            for told in waiting:
                if not told.done():
                    told.set_result(None)

    def _closed(self) -> ServerUnavailable:
        return ServerUnavailable(f"the client of queue {self._queue} is closed")

    def _fail(self, error: Exception) -> None:
        for waiting in self._waiting.values():
            for told in waiting:
                if not told.done():
                    told.set_exception(error)

    def _leave(self, job_id: JobId, told: "asyncio.Future[End | None]") -> None:
        self._waiting[job_id].discard(told)
        if told.done() and not told.cancelled():
            told.exception()  # retrieved: who looked needs it no more
        if not self._waiting[job_id]:
            del self._waiting[job_id]
        if not self._waiting and self._following is not None and self._farewell is None:
            self._farewell = asyncio.get_running_loop().call_later(LINGER_SECONDS, self._stop_listening)

    def _stop_listening(self) -> None:
        self._farewell = None
        if not self._waiting and self._following is not None:
            self._following.cancel()
            self._following = None


def _end_told(event: QueueEvent) -> End:
    if event.kind == "completed":
        return End(event.fields.get("returnvalue", "null"))
    return End(None, event.reason)


def _retrieve(following: asyncio.Task[None]) -> None:
    """Those who wait have its error already, so that asyncio need not report it."""
    if not following.cancelled():
        following.exception()
