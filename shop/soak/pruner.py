"""Prunes all the while: what is settled leaves a moment later, and nothing may be different for it."""

import asyncio
from collections import Counter

from shop.trial.children import HOMING
from shop.trial.stage import Stage

PAUSE_SECONDS = 8.0

DONE, NO_SERVER = 0, 4


class Pruner:
    """Runs `homing prune` again and again, with the retention of the stage's variables. `ended`: how often with which status."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self.ended: Counter[int] = Counter()

    @property
    def strange_ends(self) -> list[str]:
        """Ends that a server which was away does not explain, in words."""
        strange = {status: times for status, times in self.ended.items() if status not in (DONE, NO_SERVER)}
        return [f"{times} × homing prune ended with status {status}" for status, times in sorted(strange.items())]

    async def run(self) -> None:
        """Prune until cancelled."""
        while True:
            await asyncio.sleep(PAUSE_SECONDS)
            child = self._stage.start("prune", [HOMING, "prune", "--yes"])
            try:
                self.ended[await asyncio.to_thread(child.wait)] += 1
            finally:
                child.kill()
