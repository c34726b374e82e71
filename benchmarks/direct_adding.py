"""The two sides of `python -m benchmarks.direct`: enqueueing one job after another, and a hundred at once.

python -m benchmarks.direct_adding ours|official <redis url> <jobs>
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable

from bullmq import Queue  # type: ignore[import-untyped]  # it ships without types

from benchmarks.quick_meter import Watch
from homing import Event, Homing
from homing.config.settings import Settings

AT_ONCE = 100


class Asked(Event, topic="bench.asked", unrouted=True):
    """What is enqueued."""

    user_id: int
    kind: str = "order.created"
    amount: int = 4200


def bench_app() -> Homing:
    """An app that enqueues; its handlers are elsewhere, as in a web process."""
    app = Homing("bull")
    app.queue("bench")
    return app


Add = Callable[[int], Awaitable[object]]


async def ours(jobs: int, redis_url: str) -> None:
    """`queue.enqueue`, with everything it checks."""
    app = bench_app()
    app.use(Settings(redis_url=redis_url))
    (queue,) = app.queues
    await time_both(lambda number: queue.enqueue("job", Asked(user_id=number)), jobs)
    await app.close()


async def official(jobs: int, redis_url: str) -> None:
    """The official port's `add`, with data as long."""
    queue = Queue("bench", {"connection": redis_url})

    def add(number: int) -> Awaitable[object]:
        event = Asked(user_id=number)
        data = {
            "eventId": str(event.event_id),
            "traceId": event.event_id.hex,
            "payload": event.model_dump(by_alias=True),
        }
        added: Awaitable[object] = queue.add("job", data, {"jobId": f"{event.event_id}.job", "attempts": 8})
        return added

    await time_both(add, jobs)
    await queue.close()


async def time_both(add: Add, jobs: int) -> None:
    """Print rate and CPU (µs a job) of one after another, and of many at once."""
    await add(-1)  # connects, loads the script
    watch = Watch()
    for number in range(jobs):
        await add(number)
    alone = watch.seconds
    watch = Watch()
    for start in range(0, jobs, AT_ONCE):
        await asyncio.gather(*(add(number) for number in range(start, start + AT_ONCE)))
    print(*(figure for wall, cpu in (alone, watch.seconds) for figure in (jobs / wall, cpu / jobs * 1e6)))


def main() -> None:
    who, redis_url, jobs = sys.argv[1:]
    asyncio.run({"ours": ours, "official": official}[who](int(jobs), redis_url))


if __name__ == "__main__":
    main()
