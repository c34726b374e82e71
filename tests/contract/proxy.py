"""A TCP proxy that reads along and breaks the connection at a chosen command."""

import asyncio
from collections.abc import Callable
from enum import Enum
from typing import Self

import hiredis

Command = list[bytes]


class Fault(Enum):
    """What happens at the chosen command."""

    CUT_BEFORE = "the command never reaches the server"
    CUT_AFTER = "the server runs it, its answer never arrives"
    HANG = "the server runs it, nothing arrives any more, the connection stays open"


class TcpProxy:
    """Stands between a client and a server on loopback. `fault_at` picks the command that breaks, once."""

    def __init__(self, target_port: int) -> None:
        self._target_port = target_port
        self._fault: tuple[Callable[[Command], bool], Fault] | None = None
        self.commands: list[Command] = []
        self.reads = 0
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self.serve, "127.0.0.1", 0, limit=1 << 24)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def port(self) -> int:
        assert self._server is not None
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    def fault_at(self, chooses: Callable[[Command], bool], fault: Fault) -> None:
        """Break at the next command that `chooses` is true for."""
        self._fault = (chooses, fault)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry one client's connection; public, so that other kinds of listeners can lead here."""
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        server_reader, server_writer = await asyncio.open_connection("127.0.0.1", self._target_port)
        back = asyncio.create_task(self._copy_back(server_reader, writer))
        try:
            await self._copy_forth(reader, server_writer, back, server_reader)
        except (ConnectionError, asyncio.CancelledError):
            pass  # one side is gone, or the test is over
        finally:
            for side in (writer, server_writer):
                side.transport.abort()  # first of all: the awaits below may be cancelled
            back.cancel()
            await asyncio.gather(back, return_exceptions=True)
            self._tasks.discard(task)

    async def _copy_forth(
        self,
        reader: asyncio.StreamReader,
        server_writer: asyncio.StreamWriter,
        back: asyncio.Task[None],
        server_reader: asyncio.StreamReader,
    ) -> None:
        parser = hiredis.Reader()
        while data := await reader.read(1 << 20):
            self.reads += 1
            fault = self._fault_in(parser, data)
            if fault is Fault.CUT_BEFORE:
                return
            if fault is not None:
                back.cancel()
                await asyncio.gather(back, return_exceptions=True)
            server_writer.write(data)
            await server_writer.drain()
            if fault is not None:
                await server_reader.read(1 << 20)
            if fault is Fault.CUT_AFTER:
                return
            if fault is Fault.HANG:
                await reader.read()  # until the client gives up

    def _fault_in(self, parser: hiredis.Reader, data: bytes) -> Fault | None:
        parser.feed(data)
        found = None
        while (command := parser.gets()) is not False:
            self.commands.append(command)
            if self._fault is not None and self._fault[0](command):
                found, self._fault = self._fault[1], None
        return found

    async def _copy_back(self, server_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await server_reader.read(1 << 20):
            writer.write(data)
            await writer.drain()
        writer.close()
