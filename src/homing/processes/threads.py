"""Threads that outlive their handler: the interpreter would wait for them at its end, for ever if need be."""

import asyncio
import logging
import threading
from collections.abc import Sequence
from typing import NoReturn

from homing.processes.signals import leave

log = logging.getLogger("homing.process")

EXECUTOR_SECONDS = 1.0
"""How long the threads of `asyncio.to_thread` may take to end when nobody waits for their work any more."""


async def lingering_threads() -> list[str]:
    """The names of the threads that the end of this process would wait for; none, once all work has ended. Call it last."""
    awaited = [
        thread for thread in threading.enumerate() if thread is not threading.main_thread() and not thread.daemon
    ]
    ending = asyncio.ensure_future(asyncio.get_running_loop().shutdown_default_executor())
    await asyncio.wait({ending}, timeout=EXECUTOR_SECONDS)
    return sorted(thread.name for thread in awaited if thread.is_alive())


def leave_threads_behind(names: Sequence[str]) -> NoReturn:
    """End the process with 0 although these threads run: their handlers have ended, or were given back and told so."""
    log.warning("leaving %d threads that nobody ended: %s", len(names), ", ".join(names))
    leave(0)
