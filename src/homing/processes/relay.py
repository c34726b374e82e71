"""`homing relay`: routing, dispatch and repair in a process of its own."""

import asyncio
import logging
from contextlib import AsyncExitStack, suppress

from homing.app.application import Homing
from homing.config.settings import Settings
from homing.processes.endpoint import where
from homing.processes.memory import release_startup_memory
from homing.processes.opening import open_process
from homing.processes.relaying import RelayLoops
from homing.processes.signals import StopAsked, StopSignal
from homing.processes.watching import shown, watched

log = logging.getLogger("homing.process")

BLOCKED_PATIENCE_SECONDS = 60.0
"""How long the event loop of a relay may be blocked before the process is given up: nothing of ours blocks it."""


def run_relay(app: Homing, settings: Settings) -> int:
    """Run until SIGTERM or SIGINT and return the exit code; errors at start as for a worker."""
    return asyncio.run(_run(app, settings))


async def _run(app: Homing, settings: Settings) -> int:
    stop = StopSignal()
    stop.listen()
    async with AsyncExitStack() as stack:
        stack.enter_context(suppress(StopAsked))
        with stop.ends_a_start():
            connections = await stack.enter_async_context(open_process(app, settings, "relay", routes=True))
        process = stack.enter_context(shown(app, settings, connections, "relay"))
        relay = RelayLoops(app, settings, ledger=connections.ledger, engine=connections.engine, metrics=process.metrics)
        await relay.start()
        await stack.enter_async_context(
            watched(process, settings, connections, relay=relay, patience_seconds=BLOCKED_PATIENCE_SECONDS)
        )
        release_startup_memory()
        log.info("relay ready%s", where(process.address))
        await stop.wait()
        process.standing.drain()
        await relay.stop()
    log.info("stopped")
    return 0
