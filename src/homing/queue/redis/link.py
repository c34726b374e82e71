"""One live connection: all calls of one turn of the event loop leave in one write, replies resolve in their order."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, cast

from homing.errors import ConfigurationError, HomingError, MissingExtraError, ServerUnavailable
from homing.queue.redis.replies import WrongServer, error_of_reply

try:
    import hiredis
except ModuleNotFoundError as error:
    raise MissingExtraError("the Redis engine", "redis") from error

Word = str | bytes | int | float


def pack_words(words: tuple[Word, ...]) -> bytes:
    """One command as it travels; text that is not valid Unicode raises `UnicodeEncodeError` and nothing is sent."""
    packed = hiredis.pack_command(words)  # type: ignore[arg-type]  # its stub says: a tuple of one word
    assert isinstance(packed, bytes)  # noqa: S101 - its stub says nothing
    return packed


class Link(asyncio.Protocol):
    """A connection that was made and is used until it breaks; it never comes back to life.

    Calls in flight when it breaks fail with `ServerUnavailable`: whether the server ran them is unknown. A server
    that says nothing for `silence_seconds` while calls are in flight counts as broken.
    """

    def __init__(self, label: str, silence_seconds: float, on_lost: "OnLost") -> None:
        self._label = label
        self._silence_seconds = silence_seconds
        self._on_lost = on_lost
        self._loop = asyncio.get_running_loop()
        self._reader = hiredis.Reader(replyError=error_of_reply)
        self._transport: asyncio.Transport | None = None
        self._outgoing: list[bytes] = []
        self._calls: deque[asyncio.Future[Any]] = deque()
        self._flush_is_due = False
        self._is_paused = False
        self._heard_at = 0.0
        self._watchdog: asyncio.TimerHandle | None = None
        self._lost: HomingError | None = None
        self._has_spoken = False

    # ── Calls ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def call(self, *words: Word) -> asyncio.Future[Any]:
        """Send one command with this turn's write; the reply, or the error reply, arrives in the future."""
        return self.send(pack_words(words))

    def send(self, packed: bytes, *, at_once: bool = False) -> asyncio.Future[Any]:
        """Send one command that is packed already; `at_once`: without waiting for others of this turn."""
        future: asyncio.Future[Any] = self._loop.create_future()
        if self._lost is not None:
            future.set_exception(ServerUnavailable(str(self._lost)))
            return future
        self._outgoing.append(packed)
        if not self._calls:
            self._heard_at = self._loop.time()
            if self._watchdog is None:
                self._watch_in(self._silence_seconds)
        self._calls.append(future)
        if at_once:
            self._flush()
        elif not self._flush_is_due:
            self._flush_is_due = True
            self._loop.call_soon(self._flush)
        return future

    @property
    def is_idle(self) -> bool:
        """Whether no call is in flight."""
        return not self._calls

    @property
    def lost(self) -> HomingError | None:
        """Why the connection broke; `None` while it lives."""
        return self._lost

    def allow_silence(self, seconds: float) -> None:
        """Let the server be silent this long from now on: for a blocking command, its block time and the usual patience."""
        self._silence_seconds = seconds

    def drop(self, why: HomingError) -> None:
        """Give the connection up now; calls in flight fail."""
        if self._lost is not None:
            return
        self._lost = why
        if self._watchdog is not None:
            self._watchdog.cancel()
            self._watchdog = None
        if self._transport is not None:
            self._transport.abort()
        self._outgoing.clear()
        while self._calls:
            future = self._calls.popleft()
            if not future.done():
                future.set_exception(type(why)(str(why)))
        self._on_lost(self, why)

    # ── What asyncio calls ──────────────────────────────────────────────────────────────────────────────────────────

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # A stream protocol gets a transport that can write, whatever class an event loop has for it (uvloop's are none of asyncio's).
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._heard_at = self._loop.time()
        try:
            self._reader.feed(data)
            while (reply := self._reader.gets()) is not False:
                self._resolve(reply)
        except hiredis.ProtocolError as error:
            self.drop(self._nonsense(error))

    def connection_lost(self, exc: Exception | None) -> None:
        why = f": {exc}" if exc else ""
        self.drop(ServerUnavailable(f"the connection to {self._label} was lost{why}"))

    def pause_writing(self) -> None:
        self._is_paused = True

    def resume_writing(self) -> None:
        self._is_paused = False
        self._flush()

    # ── Inside ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _flush(self) -> None:
        self._flush_is_due = False
        if self._is_paused or self._transport is None or not self._outgoing:
            return
        data = b"".join(self._outgoing)
        self._outgoing.clear()
        self._transport.write(data)

    def _resolve(self, reply: Any) -> None:
        if not self._calls:
            self.drop(ServerUnavailable(f"{self._label} sent a reply that nobody asked for: {reply!r}"))
            return
        self._has_spoken = True
        future = self._calls.popleft()
        if future.done():  # its caller was cancelled
            return
        if isinstance(reply, HomingError):
            future.set_exception(reply)
            if isinstance(reply, WrongServer):
                self.drop(reply)
        else:
            future.set_result(reply)

    def _nonsense(self, error: Exception) -> HomingError:
        if self._has_spoken:
            return ServerUnavailable(f"{self._label} broke the Redis protocol: {error}")
        return ConfigurationError(
            f"{self._label} answers, but it is no Redis or Valkey server: check host, port and TLS"
        )

    def _watch_in(self, seconds: float) -> None:
        self._watchdog = self._loop.call_later(seconds, self._watch)

    def _watch(self) -> None:
        self._watchdog = None
        if not self._calls:
            return
        left = self._heard_at + self._silence_seconds - self._loop.time()
        if left > 0:
            self._watch_in(left)
        else:
            self.drop(ServerUnavailable(f"{self._label} did not answer within {self._silence_seconds:g} s"))


OnLost = Callable[[Link, HomingError], None]
"""Told once that a connection broke, and why."""
