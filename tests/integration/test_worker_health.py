"""The health of a worker at work: full, idle, waiting for its servers, stopping."""

import asyncio

import asyncpg
import pytest

from homing import Event, Homing, Provider
from homing.config.settings import Settings
from homing.errors import ServerUnavailable
from homing.ledger.ledger import Ledger
from homing.service import Loop
from homing.worker import Worker, lanes
from homing.worker.ledger_outage import LedgerOutage
from tests.system import quick, running
from tests.waiting import until


class Asked(Event, topic="health.asked", unrouted=True):
    number: int = 0


def held_app(gate: asyncio.Event) -> Homing:
    app = Homing("health")

    @app.queue("work", concurrency=1).handler("do", on=Asked, at_least_once=True)
    async def do(event: Asked) -> None:
        await gate.wait()

    return app


def claim_loop(worker: Worker) -> Loop:
    return next(loop for loop in worker.loops if loop.name == "claim")


async def turns(loop: Loop, times: int) -> None:
    """Wait until the loop has turned so many times more."""
    for _ in range(times):
        before = loop.last_tick
        await until(lambda before=before: loop.last_tick > before, 10, f"{loop.name} turns")  # type: ignore[misc]  # mypy has no type for a default of a lambda


async def test_claim_loop_turns_while_it_has_nothing_to_do(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Idle or with every slot taken, waiting is turning: a healthy worker is never mistaken for a stuck one."""
    monkeypatch.setattr(lanes, "POLL_SECONDS", 0.05)
    gate = asyncio.Event()
    async with running(held_app(gate), quick(settings)) as system:
        worker = system.worker
        assert worker is not None
        await turns(claim_loop(worker), 3)
        await system.record(Asked())
        await until(lambda: worker.running == 1, what="the only slot is taken")
        await turns(claim_loop(worker), 3)
        assert worker.health().reasons == ()
        gate.set()
        await system.settled()


async def test_stopping_worker_is_live_and_not_ready(settings: Settings) -> None:
    """From the first moment of a stop to the end of the last run: nothing new, and no reason to kill it."""
    gate = asyncio.Event()
    async with running(held_app(gate), quick(settings)) as system:
        worker = system.worker
        assert worker is not None
        await system.record(Asked())
        await until(lambda: worker.running == 1, what="the job runs")
        assert worker.health().ready
        stopping = asyncio.create_task(worker.stop(10))
        await until(lambda: not worker.health().ready, what="it stops")
        assert (worker.health().live, worker.health().reasons) == (True, ("the worker is stopping",))
        await until(lambda: not claim_loop(worker).running, what="the claim loop has ended")
        assert worker.health().live
        gate.set()
        assert await stopping is True


async def test_worker_that_has_not_started_is_not_ready(settings: Settings) -> None:
    """Before its first claim a worker promises nothing."""
    async with running(held_app(asyncio.Event()), quick(settings), worker=False) as system:
        worker = Worker(system.app, settings, ledger=system.ledger, engine=system.engine, provider=Provider())
        health = worker.health()
        assert (health.live, health.ready, health.reasons) == (True, False, ("the worker has not started",))


class Calls:
    """What a doubt did."""

    def __init__(self, ledger: Ledger) -> None:
        self.made: list[str] = []
        self.outage = LedgerOutage(
            ledger, pause=lambda: self.made.append("pause"), resume=lambda: self.made.append("resume")
        )


async def test_unfounded_doubt_costs_one_statement(settings: Settings) -> None:
    """A doubt stops the claims once, and the ledger's answer lets them go on; without a doubt nobody asks."""
    ledger = Ledger(settings.asyncpg_dsn, engine="redis", application="test")
    calls = Calls(ledger)
    await calls.outage.tick()  # the ledger is not even open
    await ledger.open()
    calls.outage.doubt()
    calls.outage.doubt()
    assert calls.made == ["pause"]
    await calls.outage.tick()
    await calls.outage.tick()
    assert calls.made == ["pause", "resume"]
    await ledger.close()


async def test_ledger_that_cannot_be_written_to_is_away(settings: Settings) -> None:
    """A standby answers every question and settles nothing: claims stay stopped until it can be written to."""
    sql = await asyncpg.connect(settings.asyncpg_dsn)
    name = await sql.fetchval("SELECT current_database()")
    await sql.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    ledger = Ledger(settings.asyncpg_dsn, engine="redis", application="test")
    await ledger.open()
    calls = Calls(ledger)
    calls.outage.doubt()
    with pytest.raises(ServerUnavailable, match="read-only"):
        await calls.outage.tick()
    assert calls.made == ["pause"]
    await ledger.close()
    await sql.execute("SET default_transaction_read_only = off")
    await sql.execute(f"ALTER DATABASE {name} RESET default_transaction_read_only")
    await ledger.open()
    await calls.outage.tick()
    assert calls.made == ["pause", "resume"]
    await ledger.close()
    await sql.close()
