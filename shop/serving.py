"""Serving an ASGI app on loopback, with a free port if asked for, and a file that says where."""

import asyncio
import json
import os
import socket
from pathlib import Path

import uvicorn
from starlette.types import ASGIApp

LOOPBACK = "127.0.0.1"
SHUTDOWN_SECONDS = 15


class AnnouncingServer(uvicorn.Server):
    """Writes `{"url": …, "pid": …}` to `ready_file` once it answers."""

    def __init__(self, config: uvicorn.Config, ready_file: Path | None) -> None:
        super().__init__(config)
        self._ready_file = ready_file

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self._ready_file is not None and self.started and sockets:
            address = {"url": f"http://{LOOPBACK}:{sockets[0].getsockname()[1]}", "pid": os.getpid()}
            unfinished = self._ready_file.with_name(f"{self._ready_file.name}.{os.getpid()}")
            unfinished.write_text(json.dumps(address) + "\n", encoding="utf-8")
            unfinished.replace(self._ready_file)  # who waits for it sees all of it, or nothing


def serve(app: ASGIApp, *, port: int, ready_file: Path | None) -> None:
    """Serve until SIGTERM or SIGINT; requests that are under way are finished. Port 0 is a free one."""
    with socket.create_server((LOOPBACK, port), backlog=1024) as listener:
        config = uvicorn.Config(
            app, log_level="warning", access_log=False, ws="none", timeout_graceful_shutdown=SHUTDOWN_SECONDS
        )
        server = AnnouncingServer(config, ready_file)
        asyncio.run(server.serve(sockets=[listener]))
    if not server.started:
        raise SystemExit(3)
