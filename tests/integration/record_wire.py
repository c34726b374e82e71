"""A proxy between a driver and PostgreSQL that counts what the driver sends: statements and round trips, whoever hides them."""

import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from threading import Thread
from urllib.parse import urlsplit

_ENCRYPTION_REQUESTS = frozenset({80877103, 80877104})  # SSL and GSS: answered before the start-up message proper


@dataclass
class Wire:
    """What passed since the start: executed statements, and messages that ask the server for an answer now."""

    url: str
    statements: int = 0
    round_trips: int = 0

    def since(self, earlier: tuple[int, int]) -> tuple[int, int]:
        """Statements and round trips after `earlier`, which is what `mark` gave."""
        return self.statements - earlier[0], self.round_trips - earlier[1]

    def mark(self) -> tuple[int, int]:
        """The counts now."""
        return self.statements, self.round_trips

    def count(self, message: int) -> None:
        """Count one message of a client by its type: Q(uery), E(xecute), S(ync)."""
        self.statements += message in b"QE"
        self.round_trips += message in b"QS"


@contextmanager
def counting(url: str) -> Iterator[Wire]:
    """A URL that leads to the same database through the proxy, for connections made one after another."""
    server = urlsplit(url)
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    wire = Wire(url=server._replace(netloc=f"{server.netloc.rpartition(':')[0]}:{port}").geturl())
    acceptor = Thread(target=_accept, args=(listener, (server.hostname, server.port), wire), daemon=True)
    acceptor.start()
    try:
        yield wire
    finally:
        with suppress(OSError):  # not connected, but this is what wakes a thread that waits in accept
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        acceptor.join(timeout=10)


def _accept(listener: socket.socket, server: tuple[str, int], wire: Wire) -> None:
    threads: list[Thread] = []
    while True:
        try:
            client, _ = listener.accept()
        except OSError:  # the listener was closed: the test is over
            break
        upstream = socket.create_connection(server)
        for side in (
            client,
            upstream,
        ):  # messages are sent on one by one, and must not wait for each other's acknowledgement
            side.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for target, arguments in ((_requests, (client, upstream, wire)), (_answers, (upstream, client))):
            threads.append(Thread(target=target, args=arguments, daemon=True))
            threads[-1].start()
    for thread in threads:
        thread.join(timeout=10)


def _requests(client: socket.socket, upstream: socket.socket, wire: Wire) -> None:
    with client, upstream, suppress(OSError, EOFError):
        while True:
            (length,) = struct.unpack("!i", head := _read(client, 4))
            body = _read(client, length - 4)
            upstream.sendall(head + body)
            if struct.unpack("!i", body[:4])[0] not in _ENCRYPTION_REQUESTS:
                break
        while True:
            head = _read(client, 5)
            body = _read(client, struct.unpack("!i", head[1:])[0] - 4)
            wire.count(head[0])
            upstream.sendall(head + body)


def _answers(upstream: socket.socket, client: socket.socket) -> None:
    with suppress(OSError):
        while data := upstream.recv(65_536):
            client.sendall(data)
        client.shutdown(socket.SHUT_WR)  # a driver that said goodbye waits for this


def _read(source: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = source.recv(size - len(data))
        if not piece:
            raise EOFError
        data += piece
    return data
