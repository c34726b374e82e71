"""`homing top`: how fast each consumer gets on, and how its queue fills or empties."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import typer
from rich.console import Group

from homing.cli.engines import run_on_both
from homing.cli.exits import Exit
from homing.cli.live import drawing, until_interrupted
from homing.cli.output import make_console, show_error, show_json
from homing.cli.pictures import line, picture, table
from homing.cli.session import session_of
from homing.cli.status_screen import queue_table
from homing.cli.words import moment, name, number
from homing.durations import parse_duration
from homing.errors import ServerUnavailable
from homing.harmless import clean_line
from homing.ledger.ledger import Ledger
from homing.operations.overview import QueueState, read_queue_names, read_queues
from homing.operations.pace import OpenWork, Pace, read_open_work, read_pace
from homing.queue.browse import SteeredEngine

_COLUMNS = ("consumer", "settled/s", "dead/s", "unsettled")


@dataclass(frozen=True, slots=True, kw_only=True)
class Top:
    """The pace between the last two looks, and the queues as they are now; `engine_error`: why nothing is known of them."""

    look: OpenWork
    paces: tuple[Pace, ...]
    queues: tuple[QueueState, ...]
    engine_error: str | None


def top_verb(
    context: typer.Context,
    *,
    once: Annotated[bool, typer.Option("--once", help="Two looks, one table.")] = False,
    every: Annotated[str, typer.Option(help="How long between two looks.", metavar="DURATION")] = "2s",
) -> None:
    """Show the pace of every consumer and what waits, until Ctrl-C.

    The pace is how many deliveries a second settle and die, reckoned from two looks at the ledger; deliveries of events that were recorded more than a minute before they were routed
    are missed when they are routed and settled between two looks.
    """
    session = session_of(context)
    seconds = _seconds(every)

    async def show_all(ledger: Ledger, engine: SteeredEngine) -> None:
        with drawing() as draw:
            async for top in _tops(ledger, engine, seconds):
                if session.json:
                    show_json(_as_json(top))
                else:
                    draw(_draw(top))

    async def first(ledger: Ledger, engine: SteeredEngine) -> Top:
        return await anext(_tops(ledger, engine, seconds))

    if not once:
        with until_interrupted():
            run_on_both(session, "top", show_all)
        return
    top = run_on_both(session, "top", first)
    if session.json:
        show_json(_as_json(top))
    else:
        make_console().print(_draw(top))
    if top.engine_error is not None:
        show_error(clean_line(top.engine_error, 400))
        raise typer.Exit(Exit.SERVER)


async def _tops(ledger: Ledger, engine: SteeredEngine, seconds: float) -> AsyncIterator[Top]:
    look = await read_open_work(ledger)
    while True:
        await asyncio.sleep(seconds)
        look, paces = await read_pace(ledger, look)
        queues, error = await _queues(ledger, engine)
        yield Top(look=look, paces=paces, queues=queues, engine_error=error)


async def _queues(ledger: Ledger, engine: SteeredEngine) -> tuple[tuple[QueueState, ...], str | None]:
    names = [row["queue"] for row in await read_queue_names(ledger)]
    try:
        return await read_queues(engine, names), None
    except ServerUnavailable as error:
        return (), str(error)


def _draw(top: Top) -> Group:
    rows = [
        (name(pace.consumer), f"{pace.settled_per_second:,.1f}", f"{pace.dead_per_second:,.1f}", number(pace.unsettled))
        for pace in sorted(top.paces, key=lambda pace: (-pace.settled_per_second, -pace.unsettled, pace.consumer))
    ]
    idle = line("nothing is unsettled, and nothing was settled") if not rows else None
    away = None if top.engine_error is None else line(clean_line(top.engine_error, 400), "bold red")
    return picture(
        [line(f"{moment(top.look.at)} UTC"), idle, table("Consumers", _COLUMNS, rows), away, queue_table(top.queues)]
    )


def _as_json(top: Top) -> Mapping[str, Any]:
    return {
        "at": top.look.at,
        "consumers": [asdict(pace) for pace in top.paces],
        "queues": [{"queue": queue.queue, "paused": queue.paused} | dict(queue.states()) for queue in top.queues],
        "engine_error": top.engine_error,
    }


def _seconds(text: str) -> float:
    try:
        seconds = parse_duration(text).total_seconds()
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--every") from error
    if not 0.1 <= seconds <= 3600:
        raise typer.BadParameter(f"{text!r}: give 100ms to 1h", param_hint="--every")
    return seconds
