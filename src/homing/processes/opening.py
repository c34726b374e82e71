"""What every process does first: load the app, check it, connect, and write down what this code consumes."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from homing.app.application import Homing
from homing.app.retention import check_retention
from homing.config.settings import Settings
from homing.errors import UnsuitableServer
from homing.harmless import clean_line
from homing.ledger.ledger import Ledger
from homing.processes.heartbeat import Heartbeat, Role
from homing.queue.browse import SteeredEngine
from homing.queue.redis import RedisEngine
from homing.relay import push_settings, register

log = logging.getLogger("homing.process")


@dataclass(frozen=True, slots=True)
class Connections:
    """An open ledger and an open engine; the heartbeat keeps the process on the list of workers."""

    ledger: Ledger
    engine: SteeredEngine
    heartbeat: Heartbeat


@asynccontextmanager
async def open_process(
    app: Homing, settings: Settings, role: Role, *, routes: bool = False
) -> AsyncIterator[Connections]:
    """Everything that must hold before work begins; each failure is an error that names the value and the remedy.

    Inside the block the process is on the list of workers, `routes` with a relay's loops. Connections close at the end, after what the
    block ran on them.
    """
    app.use(settings)
    app.load()
    app.check()
    _keep_contract(app, settings)
    ledger = Ledger(settings.asyncpg_dsn, engine=settings.engine, application=f"homing {role} {app.name}")
    engine = RedisEngine(settings.redis_dsn, prefix=settings.prefix or app.name)
    await ledger.open()
    try:
        await engine.open()
        await register(ledger, app.routes, app.queues)
        await _refuse_what_was_left_behind(engine, app)
        await push_settings(ledger, engine, app.queues)
        heartbeat = Heartbeat(ledger, app, role, routes=routes)
        heartbeat.loop.start()
        try:
            yield Connections(ledger, engine, heartbeat)
        finally:
            await heartbeat.leave()
    finally:
        await engine.close()
        await ledger.close()


def _keep_contract(app: Homing, settings: Settings) -> None:
    contract = check_retention(app.queues, app.handlers, settings.retention)
    contract.require()
    for warning in contract.warnings:
        log.warning("%s", warning)


async def _refuse_what_was_left_behind(engine: RedisEngine, app: Homing) -> None:
    """Jobs that BullMQ 5 keeps where nobody looks any more would wait for ever, and nobody would hear of it.

    The queues are registered by now, so that people can resume them.
    """
    left = await engine.left_behind([queue.name for queue in app.queues])
    if left:
        raise UnsuitableServer(
            f"{len(left)} queues hold what only BullMQ 5 reads, and no worker of BullMQ 6 or of ours would run: "
            + "; ".join(clean_line(f"{one}: {one.remedy}", 600) for one in left)
        )
