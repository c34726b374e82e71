"""`homing status`: is work flowing, how old is the oldest, what is failing, what is nobody's. Asks the servers; no process is needed."""

import asyncio
from typing import Annotated

import typer

from homing.cli.engines import run_on_both
from homing.cli.exits import Exit
from homing.cli.live import drawing, until_interrupted
from homing.cli.output import make_console, show_error, show_json
from homing.cli.pictures import line
from homing.cli.session import Session, session_of
from homing.cli.status_screen import draw_status, status_as_json
from homing.errors import ServerUnavailable
from homing.harmless import clean_line
from homing.ledger.ledger import Ledger
from homing.operations.status import Status, read_status, read_sure_status
from homing.operations.verdict import Level
from homing.queue.browse import SteeredEngine

PATIENCE_SECONDS = 10.0
"""How long one look may take in all."""

AGAIN_SECONDS = 1.0
"""How long a live relay gets to show that it catches up, where something is late."""

WATCH_SECONDS = 2.0


def status_verb(
    context: typer.Context,
    *,
    watch: Annotated[bool, typer.Option("--watch", help="Look again every two seconds, until Ctrl-C.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Exit with 1 when work stands still.")] = False,
) -> None:
    """Answer four questions in one screen. Is work flowing, how old is the oldest, what is failing, what is nobody's."""
    session = session_of(context)
    if watch:
        with until_interrupted():
            run_on_both(session, "status", _report if session.json else _watch)
        return
    status = run_on_both(session, "status", _look)
    _show(session, status)
    if status.overview.engine_error is not None:
        show_error(clean_line(status.overview.engine_error, 400))
        raise typer.Exit(Exit.SERVER)
    if check and status.verdict.level is Level.STALLED:
        raise typer.Exit(Exit.FOUND_WRONG)


def _show(session: Session, status: Status) -> None:
    if session.json:
        show_json(status_as_json(status))
    else:
        make_console().print(draw_status(status))


async def _wait() -> None:
    await asyncio.sleep(AGAIN_SECONDS)


async def _look(ledger: Ledger, engine: SteeredEngine, before: Status | None = None) -> Status:
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            if before is None:
                return await read_sure_status(ledger, engine, _wait)
            return await read_status(ledger, engine, before.overview)
    except TimeoutError as error:
        raise ServerUnavailable(f"the servers did not answer everything within {PATIENCE_SECONDS:g} s") from error


async def _watch(ledger: Ledger, engine: SteeredEngine) -> None:
    """Look again and again; a ledger that is away is shown as such, until it is back."""
    status: Status | None = None
    with drawing() as draw:
        while True:
            try:
                status = await _look(ledger, engine, status)
                draw(draw_status(status))
            except ServerUnavailable as error:
                draw(line(clean_line(str(error), 400), "bold red"))
            await asyncio.sleep(WATCH_SECONDS)


async def _report(ledger: Ledger, engine: SteeredEngine) -> None:
    """The same for programs: one document a line, and an outage ends it."""
    status: Status | None = None
    while True:
        status = await _look(ledger, engine, status)
        show_json(status_as_json(status))
        await asyncio.sleep(WATCH_SECONDS)
