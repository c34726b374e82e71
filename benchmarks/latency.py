"""From commit to handler on an idle system, and what a job costs: Redis commands and PostgreSQL statements, for both guarantees.

Run with `python -m benchmarks.latency` from the root of the repository. Relay and worker run in this process. Nothing is asserted:
numbers belong to a machine.
"""

import asyncio
import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

import asyncpg
from sqlalchemy.ext.asyncio import AsyncSession

from homing import Event, Homing, Transaction
from homing.config.settings import Settings
from homing.embedded import EmbeddedPostgres, EmbeddedValkey, stop_with_parent
from homing.schema import migrate
from tests.contract.proxy import TcpProxy
from tests.integration.record_wire import Wire, counting
from tests.system import System, running, with_sessions

EVENTS = 300
CROWD = 1000
WARM_UP = 30
IDLE_SECONDS = 3.0


class Pinged(Event, topic="bench.pinged", unrouted=True):
    """Handled without a transaction."""

    number: int


class PingedOnce(Event, topic="bench.pinged.once", unrouted=True):
    """Handled in one."""

    number: int


class Starts:
    """When each handler began, for whoever waits for it."""

    def __init__(self) -> None:
        self._waiting: dict[UUID, asyncio.Future[float]] = {}

    def expect(self, event: Event) -> asyncio.Future[float]:
        return self._waiting.setdefault(event.event_id, asyncio.get_running_loop().create_future())

    def note(self, event: Event) -> None:
        future = self.expect(event)
        if not future.done():
            future.set_result(time.perf_counter())


def bench_app(starts: Starts) -> Homing:
    app = Homing("bench")

    @app.queue("plain").handler("ping", on=Pinged, at_least_once=True)
    async def plain(event: Pinged) -> None:
        starts.note(event)

    @app.queue("once").handler("ping", on=PingedOnce)
    async def once(event: PingedOnce, tx: Transaction[AsyncSession]) -> None:
        del tx
        starts.note(event)

    return app


@dataclass(frozen=True, slots=True)
class Reading:
    """What both servers were asked so far, and when."""

    commands: int
    statements: int
    at: float

    def rates_since(self, earlier: "Reading") -> tuple[float, float]:
        """Commands and statements per second."""
        seconds = self.at - earlier.at
        return (self.commands - earlier.commands) / seconds, (self.statements - earlier.statements) / seconds

    def per_job(self, earlier: "Reading", idle: tuple[float, float], jobs: int) -> str:
        """What one job cost, without what an idle system costs anyway."""
        seconds = self.at - earlier.at
        commands = self.commands - earlier.commands - idle[0] * seconds
        statements = self.statements - earlier.statements - idle[1] * seconds
        return f"{max(0.0, commands) / jobs:.1f} commands, {max(0.0, statements) / jobs:.1f} statements a job"


@dataclass(frozen=True, slots=True)
class Wires:
    """The two counting proxies."""

    redis: TcpProxy
    postgres: Wire

    def read(self) -> Reading:
        return Reading(len(self.redis.commands), self.postgres.statements, time.perf_counter())


async def main() -> None:
    """Start servers, measure, print."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        with EmbeddedPostgres(home / "postgres") as postgres, EmbeddedValkey(home / "valkey") as valkey:
            stop_with_parent(postgres)
            stop_with_parent(valkey)
            connection = await asyncpg.connect(postgres.url())
            await migrate(connection, engine="redis")
            await connection.close()
            await measure_time(Settings(database_url=postgres.url(), redis_url=valkey.url()))
            async with TcpProxy(valkey.port) as proxy:
                with counting(postgres.url()) as wire:
                    redis_url = valkey.url().replace(f":{valkey.port}/", f":{proxy.port}/")
                    await measure_cost(Settings(database_url=wire.url, redis_url=redis_url), Wires(proxy, wire))


async def measure_time(settings: Settings) -> None:
    """One event at a time, from the return of the commit to the handler; then many at once, from the record to the last handler."""
    starts = Starts()
    async with running(with_sessions(bench_app(starts), settings), settings) as system:
        for kind in (Pinged, PingedOnce):
            waits = await one_by_one(system, starts, kind, WARM_UP + EVENTS)
            print(f"{kind.__name__:<12} commit → handler: {percentiles(waits[WARM_UP:])}")
            began = time.perf_counter()
            await all_at_once(system, starts, kind)
            print(f"{kind.__name__:<12} {CROWD} at once: {CROWD / (time.perf_counter() - began):,.0f} jobs/s")


async def measure_cost(settings: Settings, wires: Wires) -> None:
    """Counted by proxies, alone and in a crowd, less what an idle system asks by itself. The recording itself is counted too."""
    starts = Starts()
    async with running(with_sessions(bench_app(starts), settings), settings) as system:
        await one_by_one(system, starts, Pinged, WARM_UP)
        before = wires.read()
        await asyncio.sleep(IDLE_SECONDS)
        idle = wires.read().rates_since(before)
        print(f"idle: {idle[0]:.1f} commands and {idle[1]:.1f} statements a second, relay and worker together")
        for kind in (Pinged, PingedOnce):
            before = wires.read()
            await one_by_one(system, starts, kind, EVENTS)
            print(f"{kind.__name__:<12} alone: {wires.read().per_job(before, idle, EVENTS)}")
            before = wires.read()
            await all_at_once(system, starts, kind)
            print(f"{kind.__name__:<12} in a crowd: {wires.read().per_job(before, idle, CROWD)}")


async def all_at_once(system: System, starts: Starts, kind: type[Pinged | PingedOnce]) -> None:
    """Record a crowd in one transaction and wait for the last of its handlers."""
    events = [kind(number=number) for number in range(CROWD)]
    await system.record(*events)
    await asyncio.gather(*(starts.expect(event) for event in events))


async def one_by_one(system: System, starts: Starts, kind: type[Pinged | PingedOnce], count: int) -> list[float]:
    """Milliseconds from each commit to its handler."""
    waits = []
    for number in range(count):
        event = kind(number=number)
        start = starts.expect(event)
        await system.record(event)
        committed = time.perf_counter()
        waits.append((await start - committed) * 1000)
    return waits


def percentiles(waits: list[float]) -> str:
    """Median, 99th of a hundred, and the longest."""
    cuts = statistics.quantiles(waits, n=100)
    return f"p50 {cuts[49]:.1f} ms, p99 {cuts[98]:.1f} ms, longest {max(waits):.1f} ms"


if __name__ == "__main__":
    asyncio.run(main())
