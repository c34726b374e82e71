"""Ten thousand dead letters are redriven while events flow, started twice by mistake: each runs once.

Run with `python -m benchmarks.redrive` from the root of the repository. Relay and worker run in this process, and two runners carry
two campaigns of the same filter out. Ends with 1 unless every letter and every event had its effect exactly once.
"""

import asyncio
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import asyncpg
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from homing import Event, Homing, Transaction, record
from homing.config.settings import Settings
from homing.deadletters.campaign import Terms
from homing.deadletters.campaigns import Campaigns
from homing.deadletters.filters import Filter
from homing.deadletters.runner import CampaignRunner
from homing.embedded import EmbeddedPostgres, EmbeddedValkey, stop_with_parent
from homing.ledger.actions import Person
from homing.ledger.ledger import Ledger
from homing.schema import migrate
from homing.service import Progress
from tests.integration.buried import bury
from tests.system import System, running, with_sessions

LETTERS = 10_000
RATE = 2_000.0
EVENTS_PER_SECOND = 50
TICK_SECONDS = 0.2
TRANSACTIONS = 8
WHO = Person("benchmark", "the cause was mended")
COUNT = text("INSERT INTO effects VALUES (:number)")


class Asked(Event, topic="dead.asked", unrouted=True):
    """Numbers below `LETTERS` are dead at the start; the others are traffic."""

    number: int


def app_of(settings: Settings) -> Homing:
    app = Homing("redrive")

    @app.queue("work", concurrency=20).handler("do", on=Asked)
    async def do(event: Asked, tx: Transaction[AsyncSession]) -> None:
        await tx.execute(COUNT, {"number": event.number})

    return with_sessions(app, settings)


async def main() -> int:
    """Start servers, bury, redrive twice under traffic, count."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        with EmbeddedPostgres(home / "postgres") as postgres, EmbeddedValkey(home / "valkey") as valkey:
            stop_with_parent(postgres)
            stop_with_parent(valkey)
            connection = await asyncpg.connect(postgres.url())
            await migrate(connection, engine="redis")
            await connection.execute("CREATE TABLE effects (number int)")
            await connection.close()
            settings = Settings(database_url=postgres.url(), redis_url=valkey.url())
            async with running(app_of(settings), settings) as system:
                return await measure(system)


async def measure(system: System) -> int:
    """The status: 0 when everything ran once."""
    await bury(system.sql, LETTERS)
    campaigns = Campaigns(system.ledger)
    began = time.perf_counter()
    started = [await campaigns.start(Filter(consumer="work.do"), Terms(rate=RATE), WHO) for _ in range(2)]
    enough = asyncio.Event()
    traffic = asyncio.create_task(flow(system, enough))
    await asyncio.gather(*(carry_out(system.settings) for _ in range(2)))
    redriven_seconds = time.perf_counter() - began
    enough.set()
    recorded = await traffic
    await system.settled(300)
    all_seconds = time.perf_counter() - began
    runs = Counter(row["number"] for row in await system.sql.fetch("SELECT number FROM effects"))
    once = sum(1 for number in range(LETTERS) if runs[number] == 1)
    twice = sum(1 for times in runs.values() if times > 1)
    lost = sum(1 for number in range(LETTERS + recorded) if runs[number] == 0)
    counted = sum([(await campaigns.read(campaign.id)).campaign.redriven for campaign in started])
    print(
        f"redrive: letters={LETTERS} ran_once={once} ran_twice={twice} lost={lost} traffic={recorded} counted={counted} "
        f"redriven_in={redriven_seconds:.1f}s all_settled_in={all_seconds:.1f}s"
    )
    return 0 if (once, twice, lost, counted) == (LETTERS, 0, 0, LETTERS) else 1


async def carry_out(settings: Settings) -> None:
    """Tick until both campaigns have ended, as one of two commands; the other one and the relay do the same."""
    ledger = Ledger(settings.asyncpg_dsn, engine="redis", application="redrive", connections=TRANSACTIONS)
    await ledger.open()
    runner = CampaignRunner(ledger, transactions=TRANSACTIONS)
    while any(progress.campaign.state == "running" for progress in await Campaigns(ledger).list()):
        while await runner.tick() is Progress.AGAIN:
            pass
        await asyncio.sleep(TICK_SECONDS)
    await ledger.close()


async def flow(system: System, enough: asyncio.Event) -> int:
    """Record events, one a transaction, until it is enough; how many."""
    connection = await asyncpg.connect(system.settings.asyncpg_dsn)
    recorded = 0
    try:
        while not enough.is_set():
            async with connection.transaction():
                await record(connection, Asked(number=LETTERS + recorded))
            recorded += 1
            await asyncio.sleep(1 / EVENTS_PER_SECOND)
    finally:
        await connection.close()
    return recorded


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
