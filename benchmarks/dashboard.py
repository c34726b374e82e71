"""Every page of the dashboard over a very large ledger and queue: each must answer within 300 ms, with fifty viewers in at most 120 MB.

Run with `python -m benchmarks.dashboard [rows [jobs]]` from the root of the repository (5,000,000 and 1,000,000 unless said otherwise; several
minutes, 5 GB of disk, 2 GB of memory). The ledger is that of `benchmarks.seen`, the queue that of `benchmarks.jobs`. Pages are asked for over
HTTP, as a browser does; then fifty viewers listen, each fetching a page at every look. Nothing is asserted: numbers belong to a machine.
"""

import asyncio
import contextlib
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import httpx
import psutil
from redis import Redis

from benchmarks import jobs as queue_bench
from benchmarks import seen
from homing.embedded import EmbeddedPostgres, EmbeddedValkey, stop_with_parent

TIMES = 9
VIEWERS = 50
LISTENING_SECONDS = 20.0

A_DEATH = """
SELECT l.id, l.fingerprint, d.event_id, d.consumer FROM homing.dead_letters l, homing.deliveries d WHERE d.outcome = 'done' ORDER BY l.id DESC LIMIT 1
"""
A_PENDING = "SELECT event_id, consumer FROM homing.deliveries WHERE settled_at IS NULL LIMIT 1"


async def addresses(url: str, waiting: list[str]) -> dict[str, str]:
    """One address of each page, and of the searches that look at the most."""
    connection = await asyncpg.connect(url)
    death, pending = await connection.fetchrow(A_DEATH), await connection.fetchrow(A_PENDING)
    await connection.close()
    assert death is not None
    assert pending is not None
    return {
        "overview": "/",
        "queues": "/queues",
        "a queue": f"/queues/{queue_bench.QUEUE}",
        "jobs, all states": "/jobs",
        **{f"jobs, {state}": f"/jobs?state={state}" for state in ("waiting", "delayed", "failed", "completed")},
        "jobs, of a name that nobody has": "/jobs?name=rare",
        "case file, done": f"/jobs/{death['event_id']}.1.{death['consumer']}",
        "case file, pending": f"/jobs/{pending['event_id']}.1.{pending['consumer']}",
        "case file, waiting in the middle": f"/jobs/{waiting[len(waiting) // 2]}",
        "event": f"/events/{death['event_id']}",
        "search, a trace that nobody has": f"/search?q={'0' * 32}",
        "search, a payload that nobody has": "/search?q=order.id%3D7",
        "search, a consumer that nobody has": "/search?q=consumer:x.y",
        **{
            f"outbox, {state}": f"/outbox?state={state}"
            for state in ("unpublished", "scheduled", "unroutable", "parked")
        },
        "dead letters by cause": "/deadletters",
        "dead letters one by one": "/deadletters/list",
        "dead letters, of an error that none has": "/deadletters/list?error_text=nowhere",
        "dead letter": f"/deadletters/{death['id']}",
        "campaigns": "/deadletters/campaigns",
        "dry run of a campaign of all": "/deadletters/redrive",
        "schedules": "/schedules",
        "flows": "/flows",
        "workers": "/workers",
        "actions": "/actions",
    }


async def time_pages(client: httpx.AsyncClient, pages: dict[str, str]) -> None:
    """Ask for each page so many times, one after another; print the median and the slowest."""
    for name, address in pages.items():
        took, status = [], 0
        for _ in range(TIMES):
            began = time.perf_counter()
            page = await client.get(address)
            took.append((time.perf_counter() - began) * 1000)
            status = page.status_code
        slow = "" if statistics.median(took) < 300 else "  over 300 ms"
        print(
            f"{name:<40} {statistics.median(took):7.1f} ms median {max(took):7.1f} ms slowest  {status}{slow}",
            flush=True,
        )


async def watch(client: httpx.AsyncClient, pages: list[str]) -> list[int]:
    """Listen, and fetch a page at each event, as an open page does; how often each viewer fetched one."""
    fetched = [0] * VIEWERS

    async def view(number: int) -> None:
        async with client.stream("GET", "/live") as stream:
            async for line in stream.aiter_lines():
                if line.startswith("event: look"):
                    await client.get(pages[number % len(pages)])
                    fetched[number] += 1

    viewers = [asyncio.create_task(view(number)) for number in range(VIEWERS)]
    await asyncio.sleep(LISTENING_SECONDS / 2)
    print(f"viewer {VIEWERS + 1} is told: {(await client.get('/live')).text.split()}")
    await asyncio.sleep(LISTENING_SECONDS / 2)
    for viewer in viewers:
        viewer.cancel()
    await asyncio.wait(viewers)
    return fetched


async def measure(address: str, process: psutil.Process, pages: dict[str, str]) -> None:
    """Pages one by one, then with viewers, with the memory of the process."""
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    async with httpx.AsyncClient(base_url=address, timeout=60, limits=limits) as client:
        await client.get("/")
        print(f"memory after the first page: {process.memory_info().rss / 2**20:.0f} MB")
        await time_pages(client, pages)
        fetched = await watch(client, ["/", "/queues", "/jobs?state=failed", "/deadletters", "/workers"])
        print(
            f"{VIEWERS} viewers fetched {sum(fetched)} pages in {LISTENING_SECONDS:g} s, each {min(fetched)} to {max(fetched)}"
        )
        print(f"memory with {VIEWERS} viewers: {process.memory_info().rss / 2**20:.0f} MB")


@contextlib.contextmanager
def serving(database_url: str, redis_url: str) -> Iterator[tuple[str, psutil.Process]]:
    """The dashboard as a process of its own: its address, and the process."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    names = {"DATABASE_URL": database_url, "REDIS_URL": redis_url, "HOMING_PREFIX": queue_bench.PREFIX}
    command = [sys.executable, "-m", "homing", "dashboard", "--port", str(port)]
    with subprocess.Popen(command, env={**os.environ, **names}) as process:
        try:
            address = f"http://127.0.0.1:{port}"
            _wait_for(address)
            yield address, psutil.Process(process.pid)
        finally:
            process.terminate()


def _wait_for(address: str) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with contextlib.suppress(httpx.TransportError):
            httpx.get(address, timeout=30)
            return
        time.sleep(0.1)
    raise TimeoutError(f"no dashboard at {address}")


def main() -> None:
    """Servers of its own, in a folder that is deleted afterwards."""
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 5_000_000
    jobs = int(sys.argv[2]) if len(sys.argv) > 2 else 1_000_000
    with tempfile.TemporaryDirectory() as folder:
        postgres, valkey = EmbeddedPostgres(Path(folder, "postgres")), EmbeddedValkey(Path(folder, "valkey"))
        with postgres, valkey:
            stop_with_parent(postgres)
            stop_with_parent(valkey)
            asyncio.run(seen.fill(postgres.url(), rows))
            asyncio.run(_register(postgres.url()))
            with contextlib.closing(Redis.from_url(valkey.url())) as client:
                waiting = queue_bench.fill(client, jobs)
                print(f"{jobs:,} jobs, {client.info('memory')['used_memory_human']} in Redis", flush=True)
            pages = asyncio.run(addresses(postgres.url(), waiting))
            with serving(postgres.url(), valkey.url()) as (address, process):
                asyncio.run(measure(address, process, pages))


async def _register(url: str) -> None:
    connection = await asyncpg.connect(url)
    await connection.execute("INSERT INTO homing.queues (queue) VALUES ($1)", queue_bench.QUEUE)
    await connection.close()


if __name__ == "__main__":
    main()
