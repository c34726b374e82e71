"""The play itself: customers order, workers die, everything is waited for, and the books are opened."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import asyncpg
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from shop.demo.killer import Killer
from shop.demo.options import Options
from shop.demo.verdict import LEAST_KILLS
from shop.trial.customers import Customers, Purchase, purchases
from shop.trial.facts import DELIVERIES_PER_ORDER, Facts, gather_facts, read_progress
from shop.trial.stage import Stage

PATIENCE_SECONDS = 60.0
LOOK_SECONDS = 0.25


@dataclass(frozen=True)
class Played:
    """What a play came to."""

    facts: Facts
    kills: int


async def play(stage: Stage, options: Options, console: Console) -> Played:
    """Run one demonstration on a stage that is up."""
    wanted = purchases(options)
    connection = await asyncpg.connect(_dsn(stage.servers.database_url))
    try:
        with _progress(console) as progress:
            kills = await _rush(stage, options, wanted, connection, progress)
        facts = await gather_facts(
            connection,
            wanted,
            gateway=await asyncio.to_thread(stage.gateway.ledger),
            carrier=await asyncio.to_thread(stage.carrier.ledger),
            mailbox=await asyncio.to_thread(stage.mailbox.ledger),
            logs=stage.logs,
        )
    finally:
        await connection.close()
    return Played(facts, kills)


async def _rush(
    stage: Stage,
    options: Options,
    wanted: list[Purchase],
    connection: "asyncpg.Connection[asyncpg.Record]",
    progress: Progress,
) -> int:
    """Orders, kills, and the wait for the end; returns the number of kills."""
    placed = progress.add_task("orders placed", total=len(wanted))
    settled = progress.add_task("jobs finished", total=len(wanted) * DELIVERIES_PER_ORDER)
    killed = progress.add_task("workers killed", total=None)
    killer = Killer(stage, options.dice("kills"), lambda kills: progress.update(killed, completed=kills))

    async def look() -> bool:
        seen = await read_progress(connection, wanted)
        progress.update(settled, completed=seen.settled)
        return seen.finished(len(wanted))

    async def is_over() -> bool:
        """On a busy machine few orders may be done before enough workers have died."""
        return await look() and killer.kills >= LEAST_KILLS

    async with asyncio.TaskGroup() as group:
        killing = group.create_task(killer.run())
        customers = Customers(find_shop=lambda: next(iter(stage.api_urls), None))
        ordering = group.create_task(customers.order_everything(wanted, lambda: progress.advance(placed)))
        while not ordering.done():
            await look()
            await asyncio.sleep(LOOK_SECONDS)
        await _wait_for_the_end(is_over, lambda: killer.kills >= LEAST_KILLS and killing.cancel())
        killing.cancel()
    return killer.kills


async def _wait_for_the_end(is_over: Callable[[], Awaitable[bool]], end_killing: Callable[[], object]) -> None:
    """Return when everything is finished and enough has been broken, or when nobody would wait any longer: the books tell which."""
    deadline = asyncio.get_running_loop().time() + PATIENCE_SECONDS
    while not await is_over() and asyncio.get_running_loop().time() < deadline:
        end_killing()
        await asyncio.sleep(LOOK_SECONDS)


def _progress(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description:<15}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), console=console
    )


def _dsn(url: str) -> str:
    return "postgresql://" + url.partition("://")[2]
