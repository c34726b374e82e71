"""Following a queue's events: BullMQ's stream, read without a gap that nobody is told of."""

import asyncio
from collections import deque
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

from homing.config.redis_url import RedisUrl
from homing.errors import ServerUnavailable
from homing.ids import JobId
from homing.queue.browse import moment
from homing.queue.following import EventsMissed, QueueEvent
from homing.queue.redis.connection import SILENCE_SECONDS, Connection, Welcome
from homing.queue.redis.replies import ResponseError
from homing.queue.redis.session import RedisSession

PAGE_EVENTS = 1_000
BLOCK_SECONDS = 5.0
_BEGINNING = "0-0"
_CLOCK_MARGIN_MS = 5_000  # the server's clock is known but for the way there and back

Entry = Sequence[Any]


class RedisFollowing(RedisSession):
    """The part of the engine that tells what happens."""

    def follow(self, queue: str, *, after: str | None = None) -> "RedisEventStream":
        """A stream of the queue's events, on a connection of its own: those behind `after`, or those that happen from when it is opened."""
        return RedisEventStream(self._url, self._keys(queue).part("events"), after, self._check_server)

    async def find_end(self, queue: str, job_id: JobId, since_ms: int) -> QueueEvent | None:
        """The last event since then that says how the job ended; the stream, which is bounded, is read in pages."""
        key, place, found = self._keys(queue).part("events"), f"{max(0, since_ms - _CLOCK_MARGIN_MS)}-0", None
        while True:
            entries: list[Entry] = await self._main.call("XRANGE", key, f"({place}", "+", "COUNT", PAGE_EVENTS)
            for event in map(_event, entries):
                if event.job_id == job_id and event.kind in ("completed", "failed"):
                    found = event
            if len(entries) < PAGE_EVENTS:
                return found
            place = entries[-1][0].decode()

    @property
    def is_connected(self) -> bool:
        """Whether calls are sent at once."""
        return self._main.is_connected

    @property
    def now_ms(self) -> int:
        """The server's clock, as measured last."""
        return self._now_ms()


class RedisEventStream:
    """The entries of one stream behind a place, and those that come.

    A page is read from the last known entry on, that entry included: while it is there, nothing behind it was trimmed, since a stream is
    trimmed from its beginning. Sleeping is another command, whose reply is only a wake-up.
    """

    def __init__(self, url: RedisUrl, key: str, after: str | None, welcome: Welcome) -> None:
        self._key = key
        self._connection = Connection(
            url, client_name="homing-events", welcome=welcome, silence_seconds=SILENCE_SECONDS
        )
        self._after = after
        self._place = _BEGINNING if after is None else after
        self._position = self._place
        self._is_entry = after is not None and after != _BEGINNING
        self._added_before = 0
        self._ready: deque[QueueEvent | EventsMissed] = deque()
        self._sleep: asyncio.Future[Any] | None = None
        self._is_closed = False

    @property
    def position(self) -> str:
        """The id of the last event that was handed out."""
        return self._position

    async def __aenter__(self) -> Self:
        """Find the place where the stream ends now, unless a place was given."""
        try:
            if self._after is None:
                await self._go_to_end()
            else:
                await self._connection.call("PING")
        except BaseException:
            await self._connection.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        """Close the connection; an iteration that waits ends."""
        self._is_closed = True
        await self._connection.close()
        if self._sleep is not None and self._sleep.done():
            self._sleep.exception()  # retrieved, so that asyncio does not report it: nobody waits for it any more

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> QueueEvent | EventsMissed:
        while not self._ready:
            await self._gather()
        told = self._ready.popleft()
        if isinstance(told, QueueEvent):
            self._position = told.id
        return told

    # ── Inside ──────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _gather(self) -> None:
        """Read what there is; where there is nothing, sleep until there is. An outage ends with the next connection."""
        if self._is_closed:
            raise StopAsyncIteration
        try:
            if self._sleep is None and await self._read():
                return
            await self._sleep_until_more()
        except ServerUnavailable:
            self._sleep = None

    async def _read(self) -> bool:
        """Take a page; whether there was anything in it."""
        entries: list[Entry] = await self._connection.call(
            "XRANGE", self._key, self._place, "+", "COUNT", PAGE_EVENTS + 1
        )
        if entries and entries[0][0].decode() == self._place:
            entries = entries[1:]
        elif self._is_entry or await self._was_trimmed(len(entries)):
            self._ready.append(EventsMissed(after=self._place))
            if not entries:
                await self._go_to_end()
        self._ready.extend(_event(entry) for entry in entries)
        if entries:
            self._place, self._is_entry = entries[-1][0].decode(), True
        return bool(self._ready)

    async def _was_trimmed(self, found: int) -> bool:
        """Whether a stream that had no entry to hold on to has lost its first ones since; servers before Redis 7 do not say."""
        if not found:
            return False
        facts = await self._facts()
        return int(facts.get("entries-added", 0)) - self._added_before > int(facts.get("length", 0))

    async def _go_to_end(self) -> None:
        """Stand at the end of the stream as it is now."""
        facts = await self._facts()
        last: Entry | None = facts.get("last-entry")
        self._is_entry = last is not None
        self._place = (last[0] if last is not None else facts.get("last-generated-id", _BEGINNING.encode())).decode()
        self._added_before = facts.get("entries-added", 0)
        if self._after is None and self._position == _BEGINNING:
            self._position = self._place

    async def _facts(self) -> dict[str, Any]:
        try:
            flat = await self._connection.call("XINFO", "STREAM", self._key)
        except ResponseError:  # there is no stream
            return {}
        return {name.decode(): value for name, value in zip(flat[::2], flat[1::2], strict=False)}

    async def _sleep_until_more(self) -> None:
        """A sleep goes on where a cancelled iteration left it: the server answers one after the other."""
        if self._sleep is None:
            block_ms = int(BLOCK_SECONDS * 1000)
            self._sleep = self._connection.blocking_call(
                BLOCK_SECONDS, "XREAD", "COUNT", 1, "BLOCK", block_ms, "STREAMS", self._key, self._place
            )
        await asyncio.wait({self._sleep})
        ended, self._sleep = self._sleep, None
        ended.result()


def _event(entry: Entry) -> QueueEvent:
    place, flat = entry
    words = [word.decode(errors="replace") for word in flat]
    fields = dict(zip(words[::2], words[1::2], strict=False))
    job_id = fields.pop("jobId", None)
    return QueueEvent(
        id=place.decode(),
        at=moment(int(place.partition(b"-")[0])),
        kind=fields.pop("event", ""),
        job_id=None if job_id is None else JobId(job_id),
        fields=fields,
    )
