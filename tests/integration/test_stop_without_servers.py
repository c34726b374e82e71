"""A worker that is told to stop while a server says nothing: it leaves in bounded time, and what it could not finish runs no second time."""

import asyncio

import pytest

from homing import Event, Homing
from homing.config.settings import Settings
from homing.durations import seconds
from homing.ids import DeliveryKey
from homing.queue.redis import RedisEngine
from homing.worker import worker as module
from tests.system import quick, running
from tests.tcp_proxy import TcpProxy
from tests.waiting import until

QUEUE = "work"


class Asked(Event, topic="unserved.asked", unrouted=True):
    number: int = 0


async def test_a_finish_that_nobody_answers_does_not_keep_the_worker(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The engine is silent: the effect is settled, the stop says that something is left, and whoever gets the job finds it done."""
    monkeypatch.setattr(module, "ENDING_SECONDS", 0.3)
    app = Homing("unserved")
    entered: list[int] = []
    may_leave = asyncio.Event()

    @app.queue(QUEUE).handler("do", on=Asked, at_least_once=True)
    async def do(event: Asked) -> None:
        entered.append(event.number)
        await may_leave.wait()

    url = settings.redis_dsn
    brief = quick(settings, rescue=seconds(0.3), lease=seconds(1.5), beat=seconds(0.3))
    event = Asked()
    async with TcpProxy(int(url.rpartition(":")[2].partition("/")[0])) as proxy:
        engine = RedisEngine(proxy.url(url), prefix=settings.prefix or "", silence_seconds=0.3)
        async with running(app, brief, engine=engine) as system:
            worker = system.worker
            assert worker is not None
            await system.record(event)
            await until(lambda: entered, what="it runs")
            proxy.silence()
            may_leave.set()
            await system.settled(20)
            async with asyncio.timeout(90):
                assert await worker.stop(0.1) is False
            assert worker.running == 1
            assert "1 runs did not end; their jobs come back when their leases end" in caplog.text
            await proxy.heal()
            async with running(app, brief, relay=False) as other:

                async def is_finished() -> bool:
                    (trace,) = await other.engine.inspect(QUEUE, [DeliveryKey(event.event_id, "work.do", 1).job_id])
                    return trace.finished and trace.mark == "done"

                await until(is_finished, 20, "the job is finished")
                assert await other.deliveries() == {"work.do": "done"}
                assert await other.letters() == []
    assert entered == [0]
