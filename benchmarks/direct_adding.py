"""Enqueueing beside the official port's `add`: one job after another, and a hundred at once.

Both sides take short turns in one process, so that a noisy neighbour meets both; figures are medians of the turns.
"""

import asyncio
import statistics
from collections import defaultdict
from collections.abc import Awaitable, Callable

from bullmq import Queue  # type: ignore[import-untyped]  # it ships without types

from benchmarks.quick_meter import Watch
from homing import Event, Homing
from homing.config.settings import Settings

AT_ONCE = 100

Add = Callable[[int], Awaitable[object]]


class Asked(Event, topic="bench.asked", unrouted=True):
    """What is enqueued."""

    user_id: int
    kind: str = "order.created"
    amount: int = 4200


async def compare(redis_url: str, rounds: int, jobs: int) -> None:
    """Rates and CPU of both, and their ratios."""
    app = Homing("bull")
    app.use(Settings(redis_url=redis_url))
    ours, official = app.queue("bench"), Queue("bench-official", {"connection": redis_url})

    def add_official(number: int) -> Awaitable[object]:
        event = Asked(user_id=number)
        data = {"eventId": str(event.event_id), "traceId": None, "payload": event.model_dump(by_alias=True)}
        added: Awaitable[object] = official.add("job", data, {"jobId": f"job.{event.event_id}", "attempts": 8})
        return added

    await print_ratios(
        {"ours": lambda number: ours.enqueue("job", Asked(user_id=number)), "official": add_official}, rounds, jobs
    )
    await app.close()
    await official.close()


async def print_ratios(sides: dict[str, Add], rounds: int, jobs: int) -> None:
    """Turn by turn; the first of each connects and loads the script, and does not count."""
    seen: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    ways = {"one after another": one_after_another, f"{AT_ONCE} at once": many_at_once}
    for number in range(rounds + 1):
        for what, way in ways.items():
            for who, add in sides.items():
                watch = Watch()
                await way(add, jobs)
                if number:
                    seen[what, who].append(watch.seconds)
    for what in ways:
        wall, cpu = (statistics.median(turn[at] for turn in seen[what, "ours"]) for at in (0, 1))
        other_wall, other_cpu = (statistics.median(turn[at] for turn in seen[what, "official"]) for at in (0, 1))
        print(
            f"enqueue {what}: ours={jobs / wall:,.0f}/s official={jobs / other_wall:,.0f}/s ratio={other_wall / wall:.2f}; "
            f"CPU of the process {cpu / jobs * 1e6:.0f} and {other_cpu / jobs * 1e6:.0f} µs a job, ratio={other_cpu / cpu:.2f}",
            flush=True,
        )


async def one_after_another(add: Add, jobs: int) -> None:
    for number in range(jobs):
        await add(number)


async def many_at_once(add: Add, jobs: int) -> None:
    for start in range(0, jobs, AT_ONCE):
        await asyncio.gather(*(add(number) for number in range(start, min(start + AT_ONCE, jobs))))
