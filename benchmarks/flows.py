"""Flows: how long one call takes that adds a parent with many children, and how long until the parent has run after all of them.

    python -m benchmarks.flows [--children 1000] [--rounds 5]

Nothing is asserted but that every child counted once; times belong to a machine.
"""

import argparse
import asyncio
import tempfile
import time
from pathlib import Path
from statistics import median

import asyncpg

from homing import Child, Event, Flow, Homing
from homing.config.settings import Settings
from homing.embedded import EmbeddedPostgres, EmbeddedValkey, stop_with_parent
from homing.schema import migrate
from tests.system import running

app = Homing("flows")
parents, children = app.queue("parents"), app.queue("children", concurrency=50)


class Wanted(Event, topic="bench.wanted", unrouted=True):
    """A parent with so many children."""

    number: int


class Part(Event, topic="bench.part", aggregate="number", unrouted=True):
    """One of them."""

    number: int


@children.handler("part", on=Part, at_least_once=True)
async def part(event: Part) -> int:
    return event.number


@parents.handler("whole", on=Wanted, at_least_once=True)
async def whole(event: Wanted, flow: Flow) -> int:
    values = (await flow.children()).values
    return sum(int(value) for value in values.values()) * (len(values) == event.number)


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--children", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    return parser.parse_args()


async def measure(settings: Settings, number: int, rounds: int) -> None:
    """Add a flow and wait for its parent, again and again."""
    async with running(app, settings, relay=False):
        adding: list[float] = []
        ending: list[float] = []
        for _ in range(rounds):
            parts = [Child(part, Part(number=n)) for n in range(number)]
            began = time.perf_counter()
            handle = await parents.enqueue_flow(whole, Wanted(number=number), parts)
            adding.append(time.perf_counter() - began)
            total = await handle.result(300)
            ending.append(time.perf_counter() - began)
            if total != number * (number - 1) // 2:
                raise AssertionError(f"the parent heard {total} of {number} children")
        print(f"one call adds a parent and {number:,} children in {median(adding):.3f} s (at most {max(adding):.3f} s)")
        print(f"the parent has run after all of them {median(ending):.3f} s after that call began")
        await app.close()


async def prepare(url: str) -> None:
    """Create the ledger's tables."""
    connection = await asyncpg.connect(url)
    await migrate(connection, engine="redis")
    await connection.close()


def main() -> None:
    chosen = options()
    with (
        tempfile.TemporaryDirectory() as folder,
        EmbeddedPostgres(Path(folder) / "postgres") as postgres,
        EmbeddedValkey(Path(folder) / "valkey") as valkey,
    ):
        stop_with_parent(postgres)
        stop_with_parent(valkey)
        asyncio.run(prepare(postgres.url()))
        settings = Settings(database_url=postgres.url(), redis_url=valkey.url(), prefix="flows")
        asyncio.run(measure(settings, chosen.children, chosen.rounds))


if __name__ == "__main__":
    main()
