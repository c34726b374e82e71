"""A connection that comes back: made on the first call, signed in, checked, and made again after it broke."""

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable
from typing import Any

from homing.config.redis_url import Address, Credentials, RedisUrl, Topology
from homing.errors import ConfigurationError, HomingError, ServerUnavailable
from homing.queue.redis.finding import ServerFinder
from homing.queue.redis.link import Link, OnLost, Word, pack_words

_log = logging.getLogger(__name__)

FIRST_PAUSE_SECONDS = 0.05
LONGEST_PAUSE_SECONDS = 2.0
CONNECT_SECONDS = 5.0
SILENCE_SECONDS = 5.0

Welcome = Callable[[Link], Awaitable[None]]


class Connection:
    """Calls of one event loop to one server, pipelined; which server that is, is found out before each connection.

    A call made while the connection is down waits for one attempt to connect and fails with its error; attempts are
    spaced by a pause that doubles from 0.05 s to 2 s. `welcome` runs after signing in, before any call: what it raises
    fails the calls that wait.
    """

    def __init__(
        self, url: RedisUrl, *, client_name: str, welcome: Welcome, silence_seconds: float = SILENCE_SECONDS
    ) -> None:
        self._url = url
        self._finder = ServerFinder(url, self._ask)
        self._client_name = client_name
        self._welcome = welcome
        self.silence_seconds = silence_seconds
        self._block_seconds = 0.0
        self._link: Link | None = None
        self._waiting: list[tuple[bytes, asyncio.Future[Any]]] = []
        self._attempt: asyncio.Task[None] | None = None
        self._failures = 0
        self._retry_at = 0.0
        self._is_out = False
        self._is_closed = False

    def call(self, *words: Word) -> asyncio.Future[Any]:
        """Send one command; its reply or its error arrives in the future."""
        packed = pack_words(words)
        if self._link is not None:
            return self._link.send(packed)
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if self._is_closed:
            future.set_exception(self._closed())
            return future
        self._waiting.append((packed, future))
        if self._attempt is None:
            self._attempt = asyncio.get_running_loop().create_task(self._connect())
        return future

    def call_at_once(self, *words: Word) -> asyncio.Future[Any]:
        """The same for a caller who waits for this one reply: on an idle connection it saves a turn of the event loop."""
        if self._link is not None:
            return self._link.send(pack_words(words), at_once=self._link.is_idle)
        return self.call(*words)

    def call_now(self, *words: Word) -> asyncio.Future[Any]:
        """The same for a command that is much work for the server, which may begin with it while more is made ready here."""
        if self._link is not None:
            return self._link.send(pack_words(words), at_once=True)
        return self.call(*words)

    def blocking_call(self, block_seconds: float, *words: Word) -> asyncio.Future[Any]:
        """Send a command that the server may answer only after `block_seconds`; nothing else should be in flight."""
        self._block_seconds = block_seconds
        if self._link is not None:
            self._link.allow_silence(block_seconds + self.silence_seconds)
        return self.call(*words)

    @property
    def is_connected(self) -> bool:
        """Whether calls are sent at once; false before the first call and while the connection is made again."""
        return self._link is not None

    def drop(self, why: str) -> None:
        """Give up the present connection; calls in flight fail, the next call connects again."""
        if self._link is not None:
            self._link.drop(ServerUnavailable(f"{self._url.label}: {why}"))

    async def close(self) -> None:
        """End the connection for good; calls in flight and later ones fail with `ServerUnavailable`."""
        self._is_closed = True
        if self._attempt is not None:
            self._attempt.cancel()
            await asyncio.wait({self._attempt})
        if self._link is not None:
            self._link.drop(self._closed())
            await asyncio.sleep(0)  # the transport closes its socket in the next turn of the loop
        self._fail_waiting(self._closed())

    # ── Connecting ──────────────────────────────────────────────────────────────────────────────────────────────────

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            await asyncio.sleep(max(0.0, self._retry_at - loop.time()))
            link = await self._establish()
        except HomingError as error:
            self._fail_attempt(error)
        except Exception as error:
            # A defect in the welcome, not an outage; callers must not hang on it.
            self._fail_waiting(error)
            raise
        else:
            if link.lost is None:
                self._note_success(link)
            else:  # it broke right behind the last answer
                self._fail_attempt(link.lost)
        finally:
            self._attempt = None

    async def _establish(self) -> Link:
        link: Link | None = None
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                link = await self._open_socket()
                await self._sign_in(link)
                await self._welcome(link)
        except TimeoutError as error:
            raise self._given_up(link, f"no connection within {CONNECT_SECONDS:g} s") from error
        except ssl.SSLCertVerificationError as error:
            raise ConfigurationError(
                f"the certificate of {self._url.label} is not trusted ({error.verify_message}): "
                "give its authority as ?ssl_ca_certs=<file>"
            ) from error
        except OSError as error:
            raise self._given_up(link, f"cannot connect: {error}") from error
        except UnicodeError as error:
            raise ConfigurationError(f"{self._url.label} has no valid host name: {error}") from error
        except BaseException:
            self._given_up(link, "signing in failed")
            raise
        return link

    def _given_up(self, link: Link | None, why: str) -> ServerUnavailable:
        error = ServerUnavailable(f"{self._url.label}: {why}")
        if link is not None:
            link.drop(error)
        return error

    async def _open_socket(self) -> Link:
        url = self._url
        if url.path is not None:
            link = Link(url.label, self.silence_seconds, self._on_lost)
            return (await asyncio.get_running_loop().create_unix_connection(lambda: link, url.path))[1]
        address = await self._finder.find()
        label = url.label if url.topology is Topology.SERVER else f"{url.label}, now {address}"
        return await self._open_link(address, label, self._on_lost)

    async def _open_link(self, address: Address, label: str, on_lost: OnLost) -> Link:
        loop = asyncio.get_running_loop()
        link = Link(label, self.silence_seconds, on_lost)
        return (await loop.create_connection(lambda: link, address.host, address.port, ssl=self._url.ssl_context()))[1]

    async def _ask(self, node: Address, credentials: Credentials, words: tuple[str, ...]) -> Any:
        """Ask one node one thing, over a connection that is closed again."""
        link = await self._open_link(node, str(node), _ignore)
        try:
            for step in _sign_in_steps(credentials):
                await link.call(*step)
            return await link.call(*words)
        finally:
            link.drop(ServerUnavailable(f"{node} was asked"))

    async def _sign_in(self, link: Link) -> None:
        steps = _sign_in_steps(self._url.credentials)
        if self._url.db:
            steps.append(("SELECT", self._url.db))
        steps.append(("CLIENT", "SETNAME", self._client_name))
        answers = await asyncio.gather(*(link.call(*step) for step in steps), return_exceptions=True)
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer

    # ── Outages ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _note_success(self, link: Link) -> None:
        self._failures = 0
        self._link = link
        link.allow_silence(self._block_seconds + self.silence_seconds)
        if self._is_out:
            self._is_out = False
            _log.info("connected to %s again as %s", self._url.label, self._client_name)
        waiting, self._waiting = self._waiting, []
        for packed, future in waiting:
            if not future.done():
                _pass_on(link.send(packed), future)

    def _fail_attempt(self, error: HomingError) -> None:
        loop = asyncio.get_running_loop()
        self._retry_at = loop.time() + min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2.0 ** min(self._failures, 16))
        self._failures += 1
        self._finder.doubt()
        self._note_outage(error)
        self._fail_waiting(error)

    def _note_outage(self, error: HomingError) -> None:
        if not self._is_out and not self._is_closed:
            self._is_out = True
            text = "no connection to %s as %s; calls fail and the next ones try again: %s"
            _log.warning(text, self._url.label, self._client_name, error)

    def _on_lost(self, link: Link, error: HomingError) -> None:
        if link is not self._link:
            return  # it broke while signing in: the attempt reports it
        self._link = None
        self._finder.doubt()
        self._retry_at = asyncio.get_running_loop().time() + FIRST_PAUSE_SECONDS
        self._note_outage(error)

    def _fail_waiting(self, error: Exception) -> None:
        waiting, self._waiting = self._waiting, []
        for _, future in waiting:
            if not future.done():
                future.set_exception(error)

    def _closed(self) -> ServerUnavailable:
        return ServerUnavailable(f"the connection to {self._url.label} is closed")


def _sign_in_steps(credentials: Credentials) -> list[tuple[Word, ...]]:
    if credentials.password is None:
        return []
    return [("AUTH", *([credentials.user] if credentials.user else []), credentials.password)]


def _ignore(_: Link, error: HomingError) -> None:
    """A connection that was made for one question is not missed."""
    del error


def _pass_on(source: asyncio.Future[Any], target: asyncio.Future[Any]) -> None:
    def copy(answered: asyncio.Future[Any]) -> None:
        if target.done():
            answered.exception()  # retrieved, so that asyncio does not report it: its caller is gone
        elif error := answered.exception():
            target.set_exception(error)
        else:
            target.set_result(answered.result())

    source.add_done_callback(copy)
