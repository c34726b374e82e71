"""What happens to our own processes: they are killed, or stand still for longer than their leases."""

import asyncio
import signal
from collections.abc import Awaitable, Callable

from shop.soak.scene import Scene
from shop.trial.children import Child
from shop.trial.stage import Crew

FROZEN_SECONDS = 7.0
"""Longer than a lease of a trial (5 s) and than the time until somebody looks for jobs without one (2 s)."""

Deed = Callable[[Scene, float], Awaitable[str]]


def kill(of: Callable[[Scene], Crew]) -> Deed:
    """SIGKILL for one of a crew; whoever keeps the crew replaces it."""

    async def strike(scene: Scene, pick: float) -> str:
        crew = of(scene)
        victim = await scene.choose(crew.members, pick)
        crew.kill(victim)
        return victim.name

    return strike


def freeze(of: Callable[[Scene], Crew]) -> Deed:
    """SIGSTOP for one of a crew, and SIGCONT when others have taken over what it held."""

    async def strike(scene: Scene, pick: float) -> str:
        victim = await scene.choose(of(scene).members, pick)
        scene.frozen.add(victim)
        victim.process.send_signal(signal.SIGSTOP)
        try:
            await asyncio.sleep(FROZEN_SECONDS)
        finally:
            thaw(scene, victim)
        return f"{victim.name} for {FROZEN_SECONDS:g} s"

    return strike


def thaw(scene: Scene, child: Child) -> None:
    """Let it go on, unless it was killed meanwhile."""
    scene.frozen.discard(child)
    if child.running:
        child.process.send_signal(signal.SIGCONT)
