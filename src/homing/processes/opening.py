"""What every process does first: load the app, check it, connect, and write down what this code consumes."""

import logging
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.metadata import version
from typing import Literal
from uuid import uuid4

from homing.app.application import Homing
from homing.app.retention import check_retention
from homing.config.settings import Settings
from homing.errors import ServerUnavailable
from homing.ledger.ledger import Ledger
from homing.ledger.statements import BEAT, LEAVE
from homing.queue.port import Engine
from homing.queue.redis import RedisEngine
from homing.relay import push_settings, register
from homing.service import Loop, Progress

log = logging.getLogger("homing.process")

BEAT_SECONDS = 10.0

Role = Literal["worker", "relay"]


@dataclass(frozen=True, slots=True)
class Connections:
    """An open ledger and an open engine; `beat` is the loop that keeps the process on the list of workers."""

    ledger: Ledger
    engine: Engine
    beat: Loop


@asynccontextmanager
async def open_process(app: Homing, settings: Settings, role: Role) -> AsyncIterator[Connections]:
    """Everything that must hold before work begins; each failure is an error that names the value and the remedy.

    Inside the block the process is on the list of workers. Connections close at the end, after what the block ran on them.
    """
    app.use(settings)
    app.load()
    app.check()
    _keep_contract(app, settings)
    ledger = Ledger(settings.asyncpg_dsn, engine=settings.engine, application=f"homing {role} {app.name}")
    engine: Engine = RedisEngine(settings.redis_dsn, prefix=settings.prefix or app.name)
    await ledger.open()
    try:
        await engine.open()
        await register(ledger, app.routes, app.queues)
        await push_settings(ledger, engine, app.queues)
        async with _listed(app, ledger, role) as beat:
            yield Connections(ledger, engine, beat)
    finally:
        await engine.close()
        await ledger.close()


def _keep_contract(app: Homing, settings: Settings) -> None:
    contract = check_retention(app.queues, app.handlers, settings.retention)
    contract.require()
    for warning in contract.warnings:
        log.warning("%s", warning)


@asynccontextmanager
async def _listed(app: Homing, ledger: Ledger, role: Role) -> AsyncIterator[Loop]:
    process = uuid4()

    async def beat() -> Progress:
        await ledger.fetch(
            BEAT,
            id=process,
            host=socket.gethostname(),
            pid=os.getpid(),
            version=version("homing"),
            role=role,
            consumers=[handler.consumer for handler in app.handlers],
            queues=[queue.name for queue in app.queues],
        )
        return Progress.REST

    loop = Loop("beat", beat, interval_seconds=BEAT_SECONDS)
    loop.start()
    try:
        yield loop
    finally:
        await loop.stop()
        try:
            await ledger.fetch(LEAVE, id=process)
        except ServerUnavailable as error:
            log.warning("this process stays on the list of workers until it is found silent: %s", error)
