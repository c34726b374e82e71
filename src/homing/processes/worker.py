"""`homing worker`: handlers, and the relay with them unless it runs elsewhere."""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress

from homing.app.application import Homing
from homing.app.resources import Provider
from homing.config.settings import Settings
from homing.metrics import Metrics
from homing.processes.endpoint import where
from homing.processes.memory import release_startup_memory
from homing.processes.opening import Connections, open_process
from homing.processes.plan import StopPlan, announce_patience, longest_attempt, warn_of_long_attempts
from homing.processes.relaying import RelayLoops
from homing.processes.signals import StopAsked, StopSignal, hard_end, leave_runs_behind
from homing.processes.threads import leave_threads_behind, lingering_threads
from homing.processes.watching import shown, watched
from homing.scheduler import declare_schedules
from homing.worker.worker import Worker

log = logging.getLogger("homing.process")

LEASES_OF_PATIENCE = 4
"""How many leases long the event loop may be blocked before the process is given up; the longest attempt is allowed in any case."""


def run_worker(
    app: Homing,
    settings: Settings,
    *,
    queues: Mapping[str, int | None] | None,
    with_relay: bool,
    supervised: bool = False,
) -> int:
    """Run until SIGTERM or SIGINT, or `supervised` until the supervisor says so, and return the exit code 0.

    Where runs must be left behind, or the stop takes too long, the process ends here with 75; where it does not work any more, with 76.
    Threads that handlers started and nobody ended are left behind too; that alone is no failure.
    Raises `ConfigurationError`, `SchemaError`, `UnsuitableServer` or `ServerUnavailable` at start, before anything runs.
    """
    with asyncio.Runner() as runner:
        if not runner.run(_run(app, settings, queues=queues, with_relay=with_relay, supervised=supervised)):
            leave_runs_behind()
        if names := runner.run(lingering_threads()):
            leave_threads_behind(names)
    return 0


async def _run(
    app: Homing,
    settings: Settings,
    *,
    queues: Mapping[str, int | None] | None,
    with_relay: bool,
    supervised: bool,
) -> bool:
    """Whether all runs had ended at the end."""
    all_ended = True
    plan = StopPlan(settings.shutdown_grace.total_seconds())
    end = hard_end(plan.longest_seconds)
    stop = StopSignal(end.start)
    stop.listen_to_supervisor() if supervised else stop.listen()
    async with AsyncExitStack() as stack:
        stack.enter_context(suppress(StopAsked))
        stack.callback(end.cancel)
        stack.push_async_callback(app.close)  # what handlers enqueued with
        with stop.ends_a_start():
            connections = await stack.enter_async_context(open_process(app, settings, "worker", routes=with_relay))
            process = stack.enter_context(shown(app, settings, connections, "worker", supervised=supervised))
            provider = await stack.enter_async_context(_resources(app))
            await _declare(app, connections)
        worker = Worker(
            app,
            settings,
            ledger=connections.ledger,
            engine=connections.engine,
            provider=provider,
            queues=queues,
            metrics=process.metrics,
        )
        announce_patience(app, settings)
        warn_of_long_attempts(app, settings)
        await worker.start()
        relay = _relay(app, settings, connections, process.metrics) if with_relay else None
        if relay is not None:
            await relay.start()
        await stack.enter_async_context(
            watched(
                process,
                settings,
                connections,
                worker=worker,
                relay=relay,
                patience_seconds=_patience_seconds(app, settings),
            )
        )
        release_startup_memory()
        ready = "worker ready, relay included" if with_relay else "worker ready"
        plan.announce(ready + where(process.address))
        await stop.wait()
        process.standing.drain()
        all_ended, _ = await asyncio.gather(
            worker.stop(stop.grace_seconds(plan.grace_seconds)),
            relay.stop() if relay is not None else asyncio.sleep(0),
        )
    log.info("stopped")
    return all_ended


def _relay(app: Homing, settings: Settings, connections: Connections, metrics: Metrics) -> RelayLoops:
    return RelayLoops(app, settings, ledger=connections.ledger, engine=connections.engine, metrics=metrics)


async def _declare(app: Homing, connections: Connections) -> None:
    """Write the schedules of this code down once the process is on the list: a schedule that no process on it has written is orphaned."""
    if app.schedules:
        await connections.heartbeat.tick()
        await declare_schedules(connections.ledger, connections.engine, app.schedules)


@asynccontextmanager
async def _resources(app: Homing) -> AsyncIterator[Provider]:
    provider = Provider()
    if app.open_resources is None:
        yield provider
        return
    async with app.open_resources(provider):
        yield provider


def _patience_seconds(app: Homing, settings: Settings) -> float:
    longest_seconds, _ = longest_attempt(app, settings)
    return max(LEASES_OF_PATIENCE * settings.lease.total_seconds(), longest_seconds)
