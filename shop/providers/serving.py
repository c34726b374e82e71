"""Running a provider as a process: its command line, its address, its end."""

import argparse
import asyncio
import json
import os
import socket
import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from shop.providers.controls import Controls
from shop.providers.front import CUT_CONNECTION
from shop.providers.knobs import KnobError, Knobs

LOOPBACK = "127.0.0.1"
_BACKLOG = 1024


@dataclass(frozen=True, kw_only=True)
class Options:
    """What the command line of a provider said."""

    knobs: Knobs
    port: int = 0
    ready_file: Path | None = None
    until_stdin_closes: bool = False
    state_file: Path | None = None
    smtp_port: int = 0


def read_command_line(name: str, operations: Collection[str], defaults: Knobs, arguments: Sequence[str]) -> Options:
    """Read the options of a provider; a wrong one ends the process with status 2 and a text that names it."""
    parser = _parser(name, defaults)
    given = vars(parser.parse_args(arguments))
    changes = {knob: _value(given[knob]) for knob in Knobs.model_fields if given[knob] is not None}
    try:
        knobs = defaults.turned(changes, operations)
    except KnobError as error:
        parser.error(str(error))
    others = {option: given[option] for option in given if option not in Knobs.model_fields}
    return Options(knobs=knobs, **others)


async def serve(app: ASGIApp, controls: Controls, options: Options, **addresses: str | int) -> None:
    """Serve HTTP on loopback until SIGTERM, SIGINT or the parent's end; `addresses` are announced beside our own."""
    with listen(options.port) as listener:
        config = uvicorn.Config(
            app,
            http=CuttableHttp,
            ws="none",
            loop="asyncio",
            lifespan="off",
            log_level="warning",
            access_log=False,
            proxy_headers=False,
            timeout_keep_alive=60,
            timeout_graceful_shutdown=2,
        )
        address = {"url": f"http://{LOOPBACK}:{listener.getsockname()[1]}", "pid": os.getpid(), **addresses}
        server = ProviderServer(config, controls, address, options.ready_file)
        if options.until_stdin_closes:
            asyncio.get_running_loop().add_reader(sys.stdin.fileno(), server.stop_if_orphaned)
        await server.serve(sockets=[listener])


def listen(port: int) -> socket.socket:
    """Listen on loopback; the caller closes. TCP is named on purpose: asyncio turns Nagle's delay off only where it is."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((LOOPBACK, port))
    listener.listen(_BACKLOG)
    return listener


class CuttableHttp(H11Protocol):
    """HTTP that lets a request drop its own connection: the state of each request says how."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's own
        super().connection_made(transport)
        self.app_state = {**self.app_state, CUT_CONNECTION: transport.abort}


class ProviderServer(uvicorn.Server):
    """Announces itself once it answers, and lets go of held calls when it has to end."""

    def __init__(
        self, config: uvicorn.Config, controls: Controls, address: dict[str, Any], ready_file: Path | None
    ) -> None:
        super().__init__(config)
        self._controls = controls
        self._address = address
        self._ready_file = ready_file

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        line = json.dumps(self._address)
        if self._ready_file is not None:
            unfinished = self._ready_file.with_name(f"{self._ready_file.name}.{os.getpid()}")
            unfinished.write_text(line + "\n")
            unfinished.replace(self._ready_file)  # a reader sees the whole line or no file
        sys.stdout.write(line + "\n")
        sys.stdout.flush()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._controls.close()
        super().handle_exit(sig, frame)

    def stop_if_orphaned(self) -> None:
        """Read what came over standard input; its end means that the process which started us is gone."""
        if not os.read(sys.stdin.fileno(), 4096):
            asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
            self._controls.close()
            self.should_exit = True


def _parser(name: str, defaults: Knobs) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"python -m shop.providers.{name}", allow_abbrev=False)
    parser.add_argument("--port", type=int, default=0, help="HTTP port on loopback; 0: a free one, printed once ready")
    parser.add_argument("--ready-file", type=Path, help="written once the provider answers: its addresses as JSON")
    if name == "mailbox":
        parser.add_argument("--smtp-port", type=int, default=0, help="SMTP port on loopback; 0: a free one")
    else:
        parser.add_argument("--state", type=Path, dest="state_file", help="keep the history here, to survive a kill")
    parser.add_argument("--until-stdin-closes", action="store_true", help="end when the pipe on standard input ends")
    for knob in Knobs.model_fields:
        shown = json.dumps(defaults.model_dump(mode="json")[knob])
        parser.add_argument(f"--{knob.replace('_', '-')}", metavar="VALUE", help=f"knob, default {shown}")
    return parser


def _value(text: str) -> Any:
    """Read a knob's value as JSON (`3`, `0.1`, `true`, `null`), or take it as it stands (`cut`, `capture,void`)."""
    try:
        return json.loads(text)
    except ValueError:
        return text
