"""What recording costs on each kind of connection: statements, round trips and time per call, beside an empty statement.

Run with `python -m benchmarks.recording` from the root of the repository. Nothing is asserted: numbers belong to a machine.
"""

import asyncio
import statistics
import tempfile
import time
from pathlib import Path

import asyncpg

from homing.embedded import EmbeddedPostgres, stop_with_parent
from homing.schema import migrate
from tests.integration.record_kinds import KINDS, Change, OrderPlaced, open_change, record_on
from tests.integration.record_wire import counting

CALLS = 300
WARM_UP = 20  # psycopg prepares a statement after a few uses


async def main() -> None:
    """Start a server, measure every kind, print a table."""
    with tempfile.TemporaryDirectory() as folder, EmbeddedPostgres(Path(folder)) as server:
        stop_with_parent(server)
        url = server.url()
        conn = await asyncpg.connect(url)
        await migrate(conn, engine="redis")
        await conn.close()
        print(
            f"{'connection':<26}{'statements':>11}{'round trips':>13}{'SELECT 1':>12}{'1 event':>12}{'50 events':>12}"
        )
        for kind in KINDS:
            statements, round_trips = await traffic(kind, url)
            async with open_change(kind, url) as change:
                empty, one, many = await nothing(change), await recording(change, 1), await recording(change, 50)
            print(f"{kind:<26}{statements:>11}{round_trips:>13}{empty:>9.0f} µs{one:>9.0f} µs{many:>9.0f} µs")


async def traffic(kind: str, url: str) -> tuple[int, int]:
    """Statements and round trips of one call in a warm transaction."""
    with counting(url) as wire:
        async with open_change(kind, wire.url) as change:
            await recording(change, 1, calls=1)
            mark = wire.mark()
            await record_on(change.tx, OrderPlaced(order_id=1))
            return wire.since(mark)


async def nothing(change: Change) -> float:
    """Microseconds (median) of the least a driver can do."""
    times = []
    for _ in range(CALLS):
        start = time.perf_counter()
        await change.execute("SELECT 1")
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e6


async def recording(change: Change, events: int, *, calls: int = CALLS) -> float:
    """Microseconds (median) of one call with so many events; the commits in between are not counted."""
    times = []
    for number in range(WARM_UP + calls):
        batch = [OrderPlaced(order_id=order) for order in range(events)]
        start = time.perf_counter()
        await record_on(change.tx, *batch)
        if number >= WARM_UP:
            times.append(time.perf_counter() - start)
        if number % 10 == 9:
            await change.commit()
            await change.execute("SELECT 1")
    return statistics.median(times) * 1e6


if __name__ == "__main__":
    asyncio.run(main())
