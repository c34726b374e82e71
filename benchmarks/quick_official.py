"""The official Python port's side of `make bench-quick`: `add` and `drain`, each in a process of its own.

python -m benchmarks.quick_official add|drain <jobs> <redis url>
"""

import asyncio
import sys
from typing import Any
from uuid import uuid4

from bullmq import Queue, Worker  # type: ignore[import-untyped]  # it ships without types

from benchmarks.quick_meter import Meter, Watch, report

CONCURRENCY = 10
"""It drains fastest with this one."""
PAGE = 500


async def add(jobs: int, redis_url: str) -> None:
    """Its own bulk call, pages as large as ours."""
    queue = Queue("bench", {"connection": redis_url})
    new = [{"name": "job", "data": _envelope(number)} for number in range(jobs)]
    await queue.add("job", _envelope(jobs))  # connects, loads the script
    watch = Watch()
    for start in range(0, jobs - 1, PAGE):
        await queue.addBulk(new[start : min(start + PAGE, jobs - 1)])
    report(watch, jobs - 1)
    await queue.close()


async def drain(jobs: int, redis_url: str) -> None:
    """Its own worker, from its first run to the start of the last."""
    meter = Meter(jobs)

    async def process(job: Any, token: str) -> None:
        del job, token
        meter.note()

    worker = Worker("bench", process, {"connection": redis_url, "concurrency": CONCURRENCY})
    report(await meter.all_started(), jobs - 1)
    await worker.close()


def _envelope(number: int) -> dict[str, Any]:
    payload = {"userId": number, "kind": "order.created", "amount": 4200}
    return {"eventId": str(uuid4()), "traceId": uuid4().hex, "payload": payload}


def main() -> None:
    step, jobs, redis_url = sys.argv[1:]
    asyncio.run({"add": add, "drain": drain}[step](int(jobs), redis_url))


if __name__ == "__main__":
    main()
