"""`homing worker`: handlers, and the relay with them unless it runs elsewhere."""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

from homing.app.application import Homing
from homing.app.resources import Provider
from homing.config.settings import Settings
from homing.processes.memory import release_startup_memory
from homing.processes.opening import open_process
from homing.processes.relaying import RelayLoops
from homing.processes.signals import StopSignal, leave_runs_behind
from homing.worker.worker import ENDING_SECONDS, Worker

log = logging.getLogger("homing.process")


def run_worker(app: Homing, settings: Settings, *, queues: Mapping[str, int | None] | None, with_relay: bool) -> int:
    """Run until SIGTERM or SIGINT and return the exit code 0; where runs must be left behind, the process ends here with 75.

    Raises `ConfigurationError`, `SchemaError`, `UnsuitableServer` or `ServerUnavailable` at start, before anything runs.
    """
    with asyncio.Runner() as runner:
        if not runner.run(_run(app, settings, queues=queues, with_relay=with_relay)):
            leave_runs_behind()
    return 0


async def _run(app: Homing, settings: Settings, *, queues: Mapping[str, int | None] | None, with_relay: bool) -> bool:
    """Whether all runs had ended at the end."""
    stop = StopSignal()
    stop.listen()
    async with AsyncExitStack() as stack:
        connections = await stack.enter_async_context(open_process(app, settings, "worker"))
        provider = await stack.enter_async_context(_resources(app))
        worker = Worker(
            app, settings, ledger=connections.ledger, engine=connections.engine, provider=provider, queues=queues
        )
        await worker.start()
        relay = RelayLoops(app, settings, ledger=connections.ledger, engine=connections.engine) if with_relay else None
        if relay is not None:
            await relay.start()
        release_startup_memory()
        _announce(settings, with_relay=with_relay)
        await stop.wait()
        all_ended, _ = await asyncio.gather(
            worker.stop(settings.shutdown_grace.total_seconds()),
            relay.stop() if relay is not None else asyncio.sleep(0),
        )
    log.info("stopped")
    return all_ended


@asynccontextmanager
async def _resources(app: Homing) -> AsyncIterator[Provider]:
    provider = Provider()
    if app.open_resources is None:
        yield provider
        return
    async with app.open_resources(provider):
        yield provider


def _announce(settings: Settings, *, with_relay: bool) -> None:
    grace = settings.shutdown_grace.total_seconds()
    log.info(
        "worker ready%s; on SIGTERM it claims nothing more, lets runs finish for %g s and gives the rest back: "
        "terminationGracePeriodSeconds should be at least %d",
        ", relay included" if with_relay else "",
        grace,
        round(grace + ENDING_SECONDS + 5),
    )
