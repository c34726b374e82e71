"""A result of many megabytes: it is its own job's business, and takes no neighbour's lease."""

import asyncio

from homing import Event, Homing
from homing.config.settings import Settings
from homing.durations import milliseconds, seconds
from homing.ids import DeliveryKey
from homing.queue.redis import RedisEngine
from tests.system import quick, running
from tests.waiting import until

QUEUE = "large"
MEGABYTES = 20


class Asked(Event, topic="large.asked", unrouted=True):
    large: bool


async def test_a_result_of_many_megabytes_costs_no_neighbour_its_lease(settings: Settings) -> None:
    """Writing it down, settling and finishing it may hold everything up; the run beside it is renewed, and nobody runs it again."""
    app = Homing("large")
    runs: list[bool] = []
    may_leave, over = asyncio.Event(), asyncio.Event()

    @app.queue(QUEUE, concurrency=2).handler("do", on=Asked, at_least_once=True)
    async def do(event: Asked) -> str:
        runs.append(event.large)
        if event.large:
            return "x" * (MEGABYTES * 1_000_000)
        await may_leave.wait()
        return "small"

    brief = quick(settings, lease=seconds(1.5), beat=milliseconds(250), rescue=seconds(60), look=seconds(60))

    async def rescued_meanwhile() -> list[str]:
        rescued: list[str] = []
        while not over.is_set():
            rescued += await other.rescue(QUEUE, 0.02)
        return rescued

    other = RedisEngine(settings.redis_dsn, prefix=settings.prefix or "")
    await other.open()
    async with running(app, brief) as system:
        small, large = Asked(large=False), Asked(large=True)
        await system.record(small)
        await until(lambda: runs == [False], what="the neighbour runs")
        rescuer = asyncio.create_task(rescued_meanwhile())
        await system.record(large)

        async def large_is_finished() -> bool:
            (trace,) = await other.inspect(QUEUE, [DeliveryKey(large.event_id, f"{QUEUE}.do", 1).job_id])
            return trace.finished and trace.mark == "done"

        await until(large_is_finished, 20, "the large one is finished")
        may_leave.set()
        await system.settled()
        over.set()
        assert await rescuer == []
        assert runs == [False, True]
        length = await system.sql.fetchval(
            "SELECT length(result #>> '{}') FROM homing.deliveries WHERE event_id = $1", large.event_id
        )
        assert length == MEGABYTES * 1_000_000
    await other.close()
