"""While the ledger does not answer nothing is claimed: a run could neither ask whether it may begin nor say that it is done."""

import logging
from collections.abc import Callable

from homing.errors import ServerUnavailable
from homing.ledger.ledger import LEDGER, Ledger
from homing.ledger.statements import ANSWER
from homing.service import Loop, Progress

log = logging.getLogger("homing.worker")

PROBE_SECONDS = 0.5
"""The first pause between two questions to a ledger in doubt; the loop makes it longer, up to five seconds."""


class LedgerOutage:
    """Stops claiming at the first doubt, asks the ledger, and goes on as soon as it answers and can be written to.

    A doubt that proves unfounded costs one statement. `pause` and `resume` are called once for each doubt.
    """

    def __init__(self, ledger: Ledger, *, pause: Callable[[], None], resume: Callable[[], None]) -> None:
        self._ledger = ledger
        self._pause = pause
        self._resume = resume
        self.doubted = False
        self.loop = Loop("ledger", self.tick, interval_seconds=PROBE_SECONDS)

    def doubt(self) -> None:
        """A run could not be judged or settled: claim nothing until the ledger has answered."""
        if not self.doubted:
            self.doubted = True
            self._pause()
            self.loop.wake()

    async def tick(self) -> Progress:
        """Ask, if there is a doubt; `ServerUnavailable` while it is justified."""
        if not self.doubted:
            return Progress.REST
        answer = await self._ledger.fetch_row(ANSWER)
        if answer is None or not answer["writable"]:
            raise ServerUnavailable("PostgreSQL answers, but it is read-only (a standby?)", server=LEDGER)
        self.doubted = False
        self._resume()
        return Progress.REST
