"""A TCP proxy that a test may silence, cut, or break at chosen bytes: for any protocol, unlike the one of the engine's contract."""

import asyncio
from typing import Self


class TcpProxy:
    """Stands between clients and a server on loopback.

    `silence` makes it accept and take everything and pass nothing on, for connections old and new; `heal` cuts what was silenced and
    passes again. `cut_after` passes what is chosen and then cuts the connection before the answer; `silence_after` passes it and then
    passes nothing any more.
    """

    def __init__(self, target_port: int) -> None:
        self._target_port = target_port
        self._silent = False
        self._cut: tuple[bytes, bytes] | None = None
        self._hush: bytes | None = None
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._clients: set[asyncio.StreamWriter] = set()
        self.accepted = 0
        self.cuts = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        await self.cut()

    def url(self, server_url: str) -> str:
        """The server's URL, leading through here."""
        assert self._server is not None
        return server_url.replace(f":{self._target_port}/", f":{self._server.sockets[0].getsockname()[1]}/")

    def silence(self) -> None:
        """Accept, and answer nothing from now on."""
        self._silent = True

    async def heal(self) -> None:
        """Cut what is connected, and let new connections pass."""
        self._silent = False
        await self.cut()

    async def cut(self) -> None:
        """End every connection."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def cut_after(self, words: bytes, *, of: bytes) -> None:
        """Once a client that has said `of` before says `words`: pass them, wait for the server's answer, and cut instead of passing it on."""
        self._cut = (of, words)

    def say(self, words: bytes) -> None:
        """Tell every client something that the server has not said."""
        for client in self._clients:
            client.write(words)

    def silence_after(self, words: bytes) -> None:
        """Once any client says `words`: pass them, and then be silent, so that the answer never comes."""
        self._hush = words

    @property
    def silent(self) -> bool:
        """Whether nothing is passed on."""
        return self._silent

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        sides = [writer]
        self._clients.add(writer)
        try:
            server_reader, server_writer = await asyncio.open_connection("127.0.0.1", self._target_port)
            sides.append(server_writer)
            doomed = asyncio.Event()
            async with asyncio.TaskGroup() as both:
                both.create_task(self._forth(reader, server_writer, doomed))
                both.create_task(self._back(server_reader, writer, doomed))
        except* (OSError, EOFError):
            pass  # one side is gone
        except* asyncio.CancelledError:
            pass  # the test cut it, or is over
        finally:
            for side in sides:
                side.transport.abort()
            self._clients.discard(writer)
            self._tasks.discard(task)

    async def _forth(
        self, reader: asyncio.StreamReader, server_writer: asyncio.StreamWriter, doomed: asyncio.Event
    ) -> None:
        said = b""
        while data := await reader.read(1 << 16):
            if self._silent:
                continue
            said += data
            if self._cut is not None and self._cut[0] in said and self._cut[1] in data:
                self._cut = None
                doomed.set()
            if self._hush is not None and self._hush in data:
                self._hush = None
                self.silence()
            server_writer.write(data)
            await server_writer.drain()
        raise EOFError

    async def _back(
        self, server_reader: asyncio.StreamReader, writer: asyncio.StreamWriter, doomed: asyncio.Event
    ) -> None:
        while data := await server_reader.read(1 << 16):
            if doomed.is_set():  # the server has done it, and nobody will hear of it
                self.cuts += 1
                raise EOFError
            if not self._silent:
                writer.write(data)
                await writer.drain()
        raise EOFError
