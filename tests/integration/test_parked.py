"""Jobs that the workers of today do not know: they wait, are shown, and run as soon as a worker that knows them is there."""

import logging

import pytest
from redis import Redis

from homing import Event, Homing
from homing.config.settings import Settings
from homing.queue.parked import ParkedJobs, ParkedKind
from homing.worker import parking
from tests.system import System, quick, running
from tests.waiting import until

KIND = ParkedKind("greet", "work.greet")


class Known(Event, topic="parked.known", unrouted=True):
    number: int = 0


class Fresh(Event, topic="parked.fresh", unrouted=True):
    number: int = 0


def old_app() -> Homing:
    app = Homing("test")

    @app.queue("work", concurrency=2).handler("do", on=Known, at_least_once=True)
    async def do(event: Known) -> None: ...

    return app


def new_app(runs: list[int]) -> Homing:
    app = Homing("test")

    @app.queue("work", concurrency=2).handler("greet", on=Fresh, at_least_once=True)
    async def greet(event: Fresh) -> None:
        runs.append(event.number)

    return app


async def park(old: System, settings: Settings, number: int) -> None:
    """Subscribe the new handler, record its events, and wait until the old worker has parked their jobs."""
    async with running(new_app([]), settings, worker=False, relay=False):
        await old.record(*(Fresh(number=at) for at in range(number)))

        async def parked() -> bool:
            return await old.engine.parked("work") == [ParkedJobs(KIND, number)]

        await until(parked, what=f"{number} jobs are parked")


async def test_parked_jobs_run_as_soon_as_a_worker_that_knows_them_starts(
    settings: Settings,
    redis_url: str,
    redis_prefix: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The old worker parks and shows them; the new one runs them right after its start, as first starts."""
    monkeypatch.setattr(parking, "LOOK_SECONDS", 600)  # what is found is found at the start, and not at a later look
    caplog.set_level(logging.INFO)
    runs: list[int] = []
    async with running(old_app(), quick(settings)) as old:
        await park(old, quick(settings), 3)
        assert old.worker is not None
        next(loop for loop in old.worker.loops if loop.name == "unpark").wake()
        shown = {"work": (ParkedJobs(KIND, 3),)}
        await until(lambda: old.worker is not None and old.worker.parked == shown, what="the worker shows them")
    said = [line for line in caplog.messages if "jobs 'greet' are parked and no handler here knows them" in line]
    assert len(said) == 1
    async with running(new_app(runs), quick(settings)) as new:
        await until(lambda: len(runs) == 3, what="they run")
        await new.settled()
        assert await new.engine.parked("work") == []
    assert "queue work: 3 parked jobs wait again, since this worker knows 'greet'" in caplog.messages
    with Redis.from_url(redis_url, decode_responses=True) as client:
        finished = client.zrange(f"{redis_prefix}:work:completed", 0, -1)
        assert [client.hget(f"{redis_prefix}:work:{job}", "ats") for job in finished] == ["1"] * 3


async def test_old_and_new_workers_side_by_side_run_everything(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An old worker may park again what the new one released: it is released again, until the new one has got it."""
    monkeypatch.setattr(parking, "LOOK_SECONDS", 0.05)
    runs: list[int] = []
    async with running(old_app(), quick(settings)) as old:
        await park(old, quick(settings), 10)
        async with running(new_app(runs), quick(settings), relay=False):
            await old.settled(30)
    assert sorted(runs) == list(range(10))
