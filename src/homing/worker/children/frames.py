"""Messages between a worker and its children: four bytes of length, then a JSON object. Never code, never pickles."""

import asyncio
import json
import socket
import struct
from typing import Any

Frame = dict[str, Any]

_LENGTH = struct.Struct(">I")


def pack(frame: Frame) -> bytes:
    """The frame's bytes; text that is no valid Unicode travels as its number."""
    body = json.dumps(frame, separators=(",", ":")).encode()
    return _LENGTH.pack(len(body)) + body


async def read(stream: asyncio.StreamReader) -> Frame:
    """The next frame; `IncompleteReadError` or another `EOFError` or `OSError` when the other side is gone."""
    (length,) = _LENGTH.unpack(await stream.readexactly(_LENGTH.size))
    frame: Frame = json.loads(await stream.readexactly(length))
    return frame


def receive(connection: socket.socket) -> Frame | None:
    """The same for a thread that may wait; `None` when the other side is gone."""
    head = _receive_exactly(connection, _LENGTH.size)
    body = None if head is None else _receive_exactly(connection, _LENGTH.unpack(head)[0])
    if body is None:
        return None
    frame: Frame = json.loads(body)
    return frame


def _receive_exactly(connection: socket.socket, size: int) -> bytes | None:
    received = bytearray()
    while len(received) < size:
        try:
            part = connection.recv(size - len(received))
        except ConnectionResetError:
            return None
        if not part:
            return None
        received += part
    return bytes(received)
