"""Kills workers while orders flow, and replaces them."""

import asyncio
from collections.abc import Callable
from random import Random

from shop.trial.children import Child
from shop.trial.stage import Stage

PAUSE_SECONDS = 3.0


class Killer:
    """Every three seconds one worker dies by SIGKILL, whatever it is doing, and another one takes its place."""

    def __init__(self, stage: Stage, dice: Random, on_kill: Callable[[int], None]) -> None:
        self._stage = stage
        self._dice = dice
        self._on_kill = on_kill
        self.kills = 0

    async def run(self) -> None:
        """Kill until cancelled; the next one dies when the last one's successor is at work."""
        await asyncio.sleep(PAUSE_SECONDS)
        while True:
            successor = self._strike()
            await asyncio.gather(asyncio.sleep(PAUSE_SECONDS), successor.until_it_says("worker ready"))

    def _strike(self) -> Child:
        victim = self._dice.choice(self._stage.workers.members)
        if not victim.running:
            raise RuntimeError(f"{victim.name} had ended by itself; see {victim.log}")
        self._stage.workers.kill(victim)
        self.kills += 1
        self._on_kill(self.kills)
        return self._stage.workers.add()
