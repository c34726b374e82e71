"""`homing relay`: routing, dispatch and repair in a process of its own."""

import asyncio
import logging

from homing.app.application import Homing
from homing.config.settings import Settings
from homing.processes.memory import release_startup_memory
from homing.processes.opening import open_process
from homing.processes.relaying import RelayLoops
from homing.processes.signals import StopSignal, leave_stuck
from homing.processes.watchdog import Watchdog
from homing.service import share_outages

log = logging.getLogger("homing.process")

BLOCKED_PATIENCE_SECONDS = 60.0
"""How long the event loop of a relay may be blocked before the process is given up: nothing of ours blocks it."""


def run_relay(app: Homing, settings: Settings) -> int:
    """Run until SIGTERM or SIGINT and return the exit code; errors at start as for a worker."""
    return asyncio.run(_run(app, settings))


async def _run(app: Homing, settings: Settings) -> int:
    stop = StopSignal()
    stop.listen()
    async with open_process(app, settings, "relay") as connections:
        relay = RelayLoops(app, settings, ledger=connections.ledger, engine=connections.engine)
        await relay.start()
        loops = [connections.beat, *relay.loops]
        share_outages(loops)
        watchdog = Watchdog(loops, end=leave_stuck, patience_seconds=BLOCKED_PATIENCE_SECONDS)
        watchdog.start()
        release_startup_memory()
        log.info("relay ready")
        await stop.wait()
        await relay.stop()
        await watchdog.stop()
    log.info("stopped")
    return 0
