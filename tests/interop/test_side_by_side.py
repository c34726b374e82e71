"""Both systems on one queue at once: producers and workers of both, and each job runs once."""

import asyncio
from collections import Counter
from typing import Any
from uuid import uuid4

from homing import Event, Homing, Job, Queue
from homing.config.settings import Settings
from homing.durations import milliseconds, seconds
from tests.interop.node import Made, Node
from tests.system import quick, running
from tests.waiting import until

JOBS_OF_EACH = 120
KINDS: list[dict[str, Any]] = [{}, {}, {"priority": 2}, {"delay": 30}, {"lifo": True}]


class Asked(Event, topic="interop.mixed", unrouted=True):
    """What both producers ask for."""

    number: int


async def test_every_job_runs_once_whoever_adds_and_runs_it(node: Node, settings: Settings) -> None:
    """Two producers and two workers, with delays, priorities, pauses by either and a bound of running jobs: nothing is lost, nothing waits on."""
    app = Homing("shop")
    mail = app.queue("mail", concurrency=5)
    here: list[str] = []

    @mail.handler("greet", on=Asked, at_least_once=True)
    async def greet(event: Asked, job: Job) -> int:
        here.append(job.id)
        return event.number

    patient = quick(settings, lease=seconds(60), beat=seconds(5))  # no lease runs out on a busy machine
    async with running(app, patient, relay=False) as system:
        queue = await node.queue("mail")
        await queue.call("setGlobalConcurrency", 7)
        worker = await node.worker("mail", "async (job) => job.data.payload.number", concurrency=5, lockDuration=60_000)
        await asyncio.gather(add_theirs(queue), add_ours(mail), pause_now_and_then(queue, mail))

        async def all_done() -> bool:
            return (await system.engine.counts("mail")).completed == 2 * JOBS_OF_EACH

        await until(all_done, 60, "every job has run")
        counts = await system.engine.counts("mail")
        await app.close()
    there = [job["$job"]["id"] for job, *_ in worker.told("completed")]
    assert counts.waiting + counts.active + counts.delayed + counts.prioritized + counts.failed == 0
    assert max(Counter([*here, *there]).values()) == 1
    assert len(here) + len(there) == 2 * JOBS_OF_EACH


async def add_theirs(queue: Made) -> None:
    """Node's producer."""
    for start in range(0, JOBS_OF_EACH, 10):
        jobs = [
            {
                "name": "greet",
                "data": {"eventId": str(uuid4()), "payload": {"number": n}},
                "opts": KINDS[n % len(KINDS)],
            }
            for n in range(start, start + 10)
        ]
        await queue.call("addBulk", jobs)


async def add_ours(mail: Queue) -> None:
    """Our producer."""
    for number in range(JOBS_OF_EACH):
        kind = KINDS[number % len(KINDS)]
        terms = {"delay": milliseconds(kind["delay"])} if "delay" in kind else kind
        await mail.enqueue("greet", Asked(number=number), **terms)


async def pause_now_and_then(queue: Made, mail: Queue) -> None:
    """Node pauses and we resume, and the reverse."""
    for _ in range(3):
        await queue.call("pause")
        await mail.resume()
        await mail.pause()
        await queue.call("resume")
