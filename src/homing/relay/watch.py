"""Which incarnation of each queue's data this process talks to: asked every second, and before anything is dispatched."""

import asyncio
import logging

from homing.errors import ServerUnavailable
from homing.ledger.ledger import Ledger
from homing.ledger.statements import EPOCHS, IDENTIFY, QUEUES
from homing.queue.port import Engine
from homing.queue.settings import read_settings
from homing.service import Progress

log = logging.getLogger("homing.relay")


class QueueWatch:
    """Keeps the verified epoch of every registered queue; a queue without one gets no jobs from this process.

    An identity never seen bumps the queue's epoch in the ledger, which makes all its older deliveries due for a look. A known identity
    of an older epoch is a deposed server: nothing is dispatched to it. Limits that the ledger keeps are pushed before the first job,
    and whenever they change: a queue that was flushed has them back before it gets its jobs back.
    """

    def __init__(self, ledger: Ledger, engine: Engine) -> None:
        self._ledger = ledger
        self._engine = engine
        self._verified: dict[str, tuple[str, int]] = {}
        self._stale: set[str] = set()
        self._pushed: dict[str, tuple[str, str]] = {}

    @property
    def epochs(self) -> dict[str, int]:
        """The queues that may be dispatched to, with the epoch that was verified on this connection."""
        return {queue: epoch for queue, (_, epoch) in self._verified.items()}

    def doubt(self, queue: str) -> None:
        """Something went wrong with this queue: dispatch nothing to it until it was verified again."""
        self._verified.pop(queue, None)

    async def tick(self) -> Progress:
        """Verify every queue; a queue whose engine is silent loses its epoch, and the others keep theirs."""
        rows = await self._ledger.fetch(QUEUES)
        for gone in self._verified.keys() - {row["queue"] for row in rows}:
            self.doubt(gone)
        answers = await asyncio.gather(
            *(self._verify(row["queue"], row["epoch"], row["settings"]) for row in rows), return_exceptions=True
        )
        for row, answer in zip(rows, answers, strict=True):
            if isinstance(answer, BaseException):
                self.doubt(row["queue"])
        failures = [answer for answer in answers if isinstance(answer, BaseException)]
        if failures:
            raise failures[0]
        return Progress.REST

    async def _verify(self, queue: str, current_epoch: int, settings: str) -> None:
        identity = await self._engine.identity(queue)
        if self._verified.get(queue) == (identity, current_epoch):
            await self._push(queue, identity, settings)
            return
        new = await self._ledger.fetch_row(IDENTIFY, queue=queue, identity=identity)
        if new is not None:
            log.warning("queue %s: its data in the engine is new to the ledger, epoch %d begins", queue, new["epoch"])
            await self._push(queue, identity, settings)
            self._accept(queue, identity, new["epoch"])
            return
        known = await self._ledger.fetch_row(EPOCHS, queue=queue, identity=identity)
        if known is None or known["identity_epoch"] is None:
            raise ServerUnavailable(f"queue {queue} vanished from the ledger while it was verified")
        if known["identity_epoch"] < known["current_epoch"]:
            self._refuse(queue, known["identity_epoch"], known["current_epoch"])
        else:
            await self._push(queue, identity, settings)
            self._accept(queue, identity, known["current_epoch"])

    async def _push(self, queue: str, identity: str, settings: str) -> None:
        """Once per incarnation of the data, and once per change of the settings."""
        if self._pushed.get(queue) != (identity, settings):
            await self._engine.push_settings(queue, read_settings(queue, settings))
            self._pushed[queue] = (identity, settings)

    def _accept(self, queue: str, identity: str, epoch: int) -> None:
        self._verified[queue] = (identity, epoch)
        if queue in self._stale:
            self._stale.discard(queue)
            log.info("queue %s: the engine is the current one again", queue)

    def _refuse(self, queue: str, identity_epoch: int, current_epoch: int) -> None:
        self.doubt(queue)
        if queue not in self._stale:
            self._stale.add(queue)
            log.error(
                "queue %s: stale server, its data is of epoch %d and the ledger is at %d: nothing is dispatched to it",
                queue,
                identity_epoch,
                current_epoch,
            )
