"""Sleeping until a queue has something to claim: one blocking connection for all queues of a worker."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any

from homing.config.redis_url import RedisUrl
from homing.errors import HomingError
from homing.queue.redis.connection import Connection
from homing.queue.redis.link import Link

_log = logging.getLogger(__name__)

_SHORTEST_BLOCK_SECONDS = 0.002
# The server ends a block only when its own timer ticks, up to 100 ms late. So the end is kept here, by unblocking, and
# the server's comes later: for a process that is gone.
_SERVER_GRACE_SECONDS = 1.0
_UNBLOCK_SECONDS = 1.0
_CLOSE_SECONDS = 1.0


class MarkerWatch:
    """Waits for BullMQ's markers: `0` = something is claimable now, `1` = something will be, its score says when.

    A marker wakes exactly one waiter and is gone once it is popped. One that was popped but not yet acted upon is
    remembered, and put back for others when this worker stops asking for its queue.
    """

    def __init__(self, url: RedisUrl, main: Connection, now_ms: Callable[[], int], client_name: str) -> None:
        self._main = main
        self._now_ms = now_ms
        self._blocking = Connection(url, client_name=client_name, welcome=self._learn_id)
        self._client_id = 0
        self._due_ms: dict[str, float] = {}
        self._interrupted: asyncio.Future[None] | None = None
        self._blocked: asyncio.Future[Any] | None = None

    async def wait(self, markers: Sequence[str], timeout_seconds: float) -> str | None:
        """Sleep until one of `markers` is due and return it; `None` after the timeout or an interrupt."""
        if self._interrupted is not None:
            raise RuntimeError("this engine is already waiting: one wait at a time, over all queues")
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_seconds
        self._interrupted = loop.create_future()
        try:
            await self._unblock()  # what a wait that was cancelled twice has left behind
            await self.give_back(keep=markers)
            left = max(timeout_seconds, _SHORTEST_BLOCK_SECONDS)  # so that the server is asked once in any case
            while (due := self._take_due(markers)) is None:
                if left <= 0:
                    return None
                block_seconds = max(_SHORTEST_BLOCK_SECONDS, min(left, self._seconds_to_next(markers)))
                if not await self._pop(markers, block_seconds):
                    return None
                left = deadline - loop.time()
        finally:
            self._interrupted = None
        return due

    def interrupt(self) -> None:
        """Make a sleeping `wait` return `None`; without one, nothing happens."""
        if self._interrupted is not None and not self._interrupted.done():
            self._interrupted.set_result(None)

    async def give_back(self, keep: Sequence[str] = ()) -> None:
        """Put markers back that were popped and that nobody here will act upon."""
        for marker in [marker for marker in self._due_ms if marker not in keep]:
            score = int(self._due_ms[marker])
            # LT: never later than a marker that others have set meanwhile.
            await self._main.call("ZADD", marker, "LT", score, "1" if score else "0")
            del self._due_ms[marker]

    async def close(self) -> None:
        """Put markers back as far as the server answers, and close the connection."""
        try:
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self.give_back()
        except (TimeoutError, HomingError) as error:
            _log.info("could not put wake-up markers back; other workers find the jobs by time: %r", error)
        await self._blocking.close()

    # ── Inside ──────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _learn_id(self, link: Link) -> None:
        self._client_id = int(await link.call("CLIENT", "ID"))

    def _take_due(self, markers: Sequence[str]) -> str | None:
        now = self._now_ms()
        due = [marker for marker in markers if self._due_ms.get(marker, now + 1) <= now]
        if not due:
            return None
        first = min(due, key=self._due_ms.__getitem__)
        del self._due_ms[first]
        return first

    def _seconds_to_next(self, markers: Sequence[str]) -> float:
        known = [self._due_ms[marker] for marker in markers if marker in self._due_ms]
        return (min(known) - self._now_ms()) / 1000 if known else float("inf")

    async def _pop(self, markers: Sequence[str], block_seconds: float) -> bool:
        """Block for a marker and remember it; whether the wait may go on."""
        assert self._interrupted is not None  # noqa: S101 - set by wait for as long as it runs
        if not markers:
            await asyncio.wait({self._interrupted}, timeout=block_seconds)
            return not self._interrupted.done()
        server_seconds = block_seconds + _SERVER_GRACE_SECONDS
        call = self._blocking.blocking_call(server_seconds, "BZPOPMIN", *markers, f"{server_seconds:.3f}")
        call.add_done_callback(self._remember)
        self._blocked = call
        try:
            await asyncio.wait({call, self._interrupted}, timeout=block_seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await self._unblock()
        if self._interrupted.done():
            return False
        if not call.cancelled():
            await call  # it has ended, or does in this turn; raises what the server or the connection had to say
        return True

    def _remember(self, call: asyncio.Future[Any]) -> None:
        if call.cancelled() or call.exception() is not None or call.result() is None:
            return
        marker, _, score = call.result()
        name = marker.decode()
        self._due_ms[name] = min(float(score), self._due_ms.get(name, float("inf")))

    async def _unblock(self) -> None:
        """End the blocked command, if there is one; a server that does not help within a second costs the connection."""
        call = self._blocked
        if call is None or call.done():
            return
        if not self._blocking.is_connected:
            call.cancel()  # it was not sent yet
            return
        try:
            async with asyncio.timeout(_UNBLOCK_SECONDS):
                while not call.done():
                    # Again until it works: the command may still be on its way and not be blocked yet.
                    await self._main.call("CLIENT", "UNBLOCK", self._client_id)
                    await asyncio.wait({call}, timeout=0.01)
        except (TimeoutError, HomingError):
            self._blocking.drop("a blocked command could not be ended")
