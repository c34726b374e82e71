"""`make bench-quick`: Homing, the official Python port and Node's BullMQ side by side on one Valkey, in under three minutes.

    python -m benchmarks.quick [--rounds 3] [--jobs 10000]

Each step is a process of its own; contenders alternate, so that a noisy neighbour meets them all; figures are medians. Every
contender adds its own jobs in calls of 500 and drains them with handlers that do nothing but count; Homing also moves and drains
deliveries of its outbox. Figures begin with a contender's first job, and there are so many that warming up hardly counts. Nothing is
asserted: rates belong to a machine, ratios travel.
"""

import argparse
import asyncio
import json
import platform
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import asyncpg
from redis import Redis

from benchmarks.quick_meter import Figures
from benchmarks.quick_node import FOLDER, installed_bullmq, node_version
from homing.embedded import EmbeddedPostgres, EmbeddedValkey, stop_with_parent
from homing.schema import migrate
from tests.contract.proxy import TcpProxy
from tests.integration.record_wire import counting

STEP_SECONDS = 60.0
COUNTED_JOBS = 1000
MODES = {
    "foreign": "jobs of other producers, at least once",
    "limited": "the same, with a limit that never binds",
    "plain": "deliveries, at least once",
    "once": "deliveries, with Transaction",
}


@dataclass(frozen=True, slots=True)
class Stage:
    """The two servers, and how many jobs each step moves."""

    database_url: str
    redis_url: str
    jobs: int

    def clear(self) -> None:
        """Empty both servers, so that no step pays for what an earlier one left."""
        with Redis.from_url(self.redis_url) as redis:
            redis.flushall()
        asyncio.run(self._truncate())

    async def _truncate(self) -> None:
        connection = await asyncpg.connect(self.database_url)
        try:
            await connection.execute("TRUNCATE homing.outbox_events, homing.deliveries, homing.dead_letters CASCADE")
        finally:
            await connection.close()


class Scores:
    """All figures by name, and their medians."""

    def __init__(self) -> None:
        self._figures: dict[str, list[Figures]] = defaultdict(list)

    def add(self, name: str, figures: Figures) -> None:
        self._figures[name].append(figures)

    def rate(self, *names: str) -> float | None:
        """The median rate over all runs of these steps; `None` when there was none."""
        rates = [figures["rate"] for name in names for figures in self._figures.get(name, [])]
        return statistics.median(rates) if rates else None

    def line(self, name: str) -> str:
        runs = self._figures[name]
        rates = [run["rate"] for run in runs]
        cpu = statistics.median(run["cpu_us"] for run in runs)
        memory = max(run["rss_mib"] for run in runs)
        spread = f"({min(rates):,.0f} to {max(rates):,.0f})"
        return f"{statistics.median(rates):>9,.0f} jobs/s {spread:<20}{cpu:>7.0f} µs CPU/job{memory:>7.0f} MiB resident"


def run_step(command: Sequence[str], log: Path) -> Figures:
    """Run one step and read its last line; what it had to say otherwise is in `log`, and printed when it fails."""
    with log.open("w") as errors:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=errors, text=True, timeout=STEP_SECONDS, check=False
        )
    if done.returncode:
        print(log.read_text()[-2000:], file=sys.stderr)
        raise SystemExit(f"bench: {' '.join(command[:4])} … ended with {done.returncode}")
    figures: Figures = json.loads(done.stdout.splitlines()[-1])
    return figures


def homing(step: str, mode: str, jobs: int, database_url: str, redis_url: str) -> list[str]:
    return [sys.executable, "-m", "benchmarks.quick_homing", step, mode, str(jobs), database_url, redis_url]


def official(step: str, jobs: int, redis_url: str) -> list[str]:
    return [sys.executable, "-m", "benchmarks.quick_official", step, str(jobs), redis_url]


def node(step: str, jobs: int, redis_url: str) -> list[str]:
    script = Path(__file__).with_name("quick_node.cjs")
    return ["node", str(script), str(FOLDER), step, str(jobs), redis_url]


def _first_step(mode: str) -> str:
    return "add" if mode in ("foreign", "limited") else "relay"


def play_round(stage: Stage, scores: Scores, log: Path, *, with_node: bool) -> None:
    """Everybody once."""
    for mode in MODES:
        stage.clear()
        first = _first_step(mode)
        jobs = stage.jobs // 8 if mode == "once" else stage.jobs
        for step in (first, "drain"):
            command = homing(step, mode, jobs, stage.database_url, stage.redis_url)
            scores.add(f"{step} {mode}", run_step(command, log))
        if mode == "foreign" and with_node:
            stage.clear()
            for step in ("add", "drain"):
                scores.add(f"{step} node", run_step(node(step, stage.jobs, stage.redis_url), log))
    stage.clear()
    for step in ("add", "drain"):
        scores.add(f"{step} official", run_step(official(step, stage.jobs // 3, stage.redis_url), log))


async def count_costs(stage: Stage, mode: str, log: Path) -> str:
    """What a drained job asks of both servers, counted by proxies; commands inside scripts cost no round trip and do not count."""
    first = _first_step(mode)
    prepare = homing(first, mode, COUNTED_JOBS, stage.database_url, stage.redis_url)
    await asyncio.to_thread(run_step, prepare, log)
    port = int(stage.redis_url.rpartition(":")[2].partition("/")[0])
    async with TcpProxy(port) as proxy:
        with counting(stage.database_url) as wire:
            redis_url = stage.redis_url.replace(f":{port}/", f":{proxy.port}/")
            await asyncio.to_thread(run_step, homing("drain", mode, COUNTED_JOBS, wire.url, redis_url), log)
            commands, statements = len(proxy.commands), wire.statements
    return f"{commands / COUNTED_JOBS:.2f} commands, {statements / COUNTED_JOBS:.2f} statements a job (start included)"


def print_versions(bullmq: str | None, stage: Stage) -> None:
    with Redis.from_url(stage.redis_url) as redis:
        info = redis.info("server")
    server = f"{info.get('server_name', 'redis')} {info.get('valkey_version', info['redis_version'])}"
    print(f"Python {platform.python_version()}, homing {version('homing')}, asyncpg {version('asyncpg')}, {server}")
    print(f"official port: bullmq {version('bullmq')} (PyPI), redis-py {version('redis')}")
    if bullmq:
        print(f"Node {node_version()}, bullmq {bullmq} (npm)", flush=True)


def print_table(scores: Scores, costs: dict[str, str], *, with_node: bool) -> None:
    others = ["official", *(["node"] if with_node else [])]
    for mode, words in MODES.items():
        print(f"drain  ours: {words:<42}{scores.line(f'drain {mode}')}")
        print(f"{'':<9}{costs[mode]}")
    for other in others:
        print(f"drain  {other:<48}{scores.line(f'drain {other}')}")
    print(f"add    {'ours':<48}{scores.line('add foreign')}")
    for other in others:
        print(f"add    {other:<48}{scores.line(f'add {other}')}")
    for mode in ("plain", "once"):
        print(f"relay  ours: {MODES[mode]:<42}{scores.line(f'relay {mode}')}")


def compare(what: str, scores: Scores, step: str) -> str:
    """One line of rates, and of ours over theirs."""
    ours, node_rate, official_rate = (scores.rate(f"{step} {who}") for who in ("foreign", "node", "official"))
    return (
        f"{what} ours={_number(ours)} node={_number(node_rate)} ratio_node={_ratio(ours, node_rate)} "
        f"official={_number(official_rate)} ratio_official={_ratio(ours, official_rate)}"
    )


def _number(rate: float | None) -> str:
    return "skipped" if rate is None else f"{rate:.0f}"


def _ratio(ours: float | None, theirs: float | None) -> str:
    return "skipped" if ours is None or theirs is None else f"{ours / theirs:.2f}"


async def make_schema(database_url: str) -> None:
    connection = await asyncpg.connect(database_url)
    try:
        await migrate(connection, engine="redis")
    finally:
        await connection.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=10_000, help="of the fast steps; slower ones move a fraction")
    options = parser.parse_args()
    bullmq = installed_bullmq()
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        with EmbeddedPostgres(home / "postgres") as postgres, EmbeddedValkey(home / "valkey") as valkey:
            stop_with_parent(postgres)
            stop_with_parent(valkey)
            asyncio.run(make_schema(postgres.url()))
            measure(Stage(postgres.url(), valkey.url(), options.jobs), options.rounds, home / "step.log", bullmq)


def measure(stage: Stage, rounds: int, log: Path, bullmq: str | None) -> None:
    """Play, and print; the last line is for machines."""
    print_versions(bullmq, stage)
    scores = Scores()
    for number in range(rounds):
        print(f"round {number + 1} of {rounds}", flush=True)
        play_round(stage, scores, log, with_node=bullmq is not None)
    costs = {}
    for mode in MODES:
        stage.clear()
        costs[mode] = asyncio.run(count_costs(stage, mode, log))
    print_table(scores, costs, with_node=bullmq is not None)
    relay, add = scores.rate("relay plain", "relay once"), scores.rate("add foreign")
    print(compare("bulk add:", scores, "add"))
    print(f"relay: ours={_number(relay)} ratio_add={_ratio(relay, add)}")
    limited, free = scores.rate("drain limited"), scores.rate("drain foreign")
    print(f"limit: ours={_number(limited)} ratio_free={_ratio(limited, free)}")
    print(f"memory: {scores.line('drain foreign').rsplit('job', 1)[1].strip()}, the worker after its drain")
    print(compare("bench: drain", scores, "drain"))


if __name__ == "__main__":
    main()
