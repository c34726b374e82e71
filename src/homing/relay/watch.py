"""Which incarnation of each queue's data this process talks to: asked every second, and before anything is dispatched."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from homing.clock import Clock, SystemClock
from homing.errors import ServerUnavailable
from homing.ledger.ledger import Ledger
from homing.ledger.statements import EPOCHS, IDENTIFY, MIRROR, QUEUES
from homing.queue.port import Engine, Observed, QueueSettings
from homing.queue.settings import limits_of, read_settings
from homing.relay.backing import BackOff
from homing.service import Progress

log = logging.getLogger("homing.relay")

Restore = Callable[[str], Awaitable[None]]
"""Gives a queue whose data is new back what it must hold besides its settings: its schedules."""


class QueueWatch:
    """Keeps the verified epoch of every registered queue; a queue without one gets no jobs from this process.

    An identity never seen bumps the queue's epoch in the ledger, which makes all its older deliveries due for a look. A known identity
    of an older epoch is a deposed server: nothing is dispatched to it. What the ledger keeps of a queue's settings is pushed before the
    first job: a queue that was flushed has its limits and its pause back before it gets its jobs back.

    `restore` is asked at the same place, for what a queue must hold besides.

    Limits are the ledger's and are pushed again when they change there. A pause is the engine's as long as its data lives: people set it
    there, and the ledger keeps it for the next incarnation.
    """

    def __init__(
        self, ledger: Ledger, engine: Engine, clock: Clock | None = None, *, restore: Restore | None = None
    ) -> None:
        self._ledger = ledger
        self._engine = engine
        self._restore = restore
        self._verified: dict[str, tuple[str, int]] = {}
        self._stale: set[str] = set()
        self._pushed: dict[str, tuple[str, QueueSettings]] = {}
        self._back_off = BackOff(clock or SystemClock())

    @property
    def epochs(self) -> dict[str, int]:
        """The queues that may be dispatched to, with the epoch that was verified on this connection."""
        return {queue: epoch for queue, (_, epoch) in self._verified.items() if not self._back_off.holds(queue)}

    @property
    def stale(self) -> frozenset[str]:
        """The queues whose engine is a deposed server."""
        return frozenset(self._stale)

    def doubt(self, queue: str) -> None:
        """Something went wrong with this queue: dispatch nothing to it until it was verified again, and ever later while that goes on."""
        self._verified.pop(queue, None)
        self._back_off.fail(queue)

    def trust(self, queue: str) -> None:
        """The queue took its jobs: its next failure is a first one again."""
        self._back_off.succeed(queue)

    async def tick(self) -> Progress:
        """Verify every queue; a queue whose engine is silent loses its epoch, and the others keep theirs."""
        rows = await self._ledger.fetch(QUEUES)
        for gone in self._verified.keys() - {row["queue"] for row in rows}:
            self._forget(gone)
        answers = await asyncio.gather(
            *(self._verify(row["queue"], row["epoch"], row["settings"]) for row in rows), return_exceptions=True
        )
        for row, answer in zip(rows, answers, strict=True):
            if isinstance(answer, BaseException):
                self._verified.pop(row["queue"], None)
        failures = [answer for answer in answers if isinstance(answer, BaseException)]
        if failures:
            raise failures[0]
        return Progress.REST

    async def _verify(self, queue: str, current_epoch: int, text: str) -> None:
        found = await self._engine.observe(queue)
        settings = read_settings(queue, text)
        if self._verified.get(queue) != (found.identity, current_epoch):
            epoch = await self._identify(queue, found.identity, settings)
            if epoch is None:
                return
            self._accept(queue, found.identity, epoch)
            if epoch != current_epoch:  # the ledger's row is of an older incarnation than what was read: next time
                return
        await self._push_limits(queue, found.identity, settings)
        await self._mirror_pause(queue, current_epoch, found, settings)

    async def _identify(self, queue: str, identity: str, settings: QueueSettings) -> int | None:
        """The epoch of this incarnation of the queue's data; `None` when it is of a deposed server.

        Settings are pushed before the ledger hears of a new incarnation: a process that dies in between leaves it to the next one. A pause
        that either side knows stays, since it may be the newer word: one too many is seen, one too few runs what somebody had stopped.
        """
        known, current = await self._epochs(queue, identity)
        if known is None:
            await self._engine.push_settings(queue, settings if settings.paused is True else limits_of(settings))
            self._pushed[queue] = (identity, limits_of(settings))
            if self._restore is not None:
                await self._restore(queue)
            new = await self._ledger.fetch_row(IDENTIFY, queue=queue, identity=identity)
            if new is not None:
                log.warning(
                    "queue %s: its data in the engine is new to the ledger, epoch %d begins", queue, new["epoch"]
                )
                return int(new["epoch"])
            known, current = await self._epochs(queue, identity)  # another relay was first
        if known is None or known < current:
            self._refuse(queue, known or 0, current)
            return None
        return current

    async def _epochs(self, queue: str, identity: str) -> tuple[int | None, int]:
        """The epoch of this incarnation, `None` when it was never seen, and the queue's current one."""
        row = await self._ledger.fetch_row(EPOCHS, queue=queue, identity=identity)
        if row is None:
            raise ServerUnavailable(f"queue {queue} vanished from the ledger while it was verified")
        return row["identity_epoch"], row["current_epoch"]

    async def _push_limits(self, queue: str, identity: str, settings: QueueSettings) -> None:
        """Once per incarnation of the data, and once per change of the settings."""
        limits = limits_of(settings)
        if self._pushed.get(queue) != (identity, limits):
            await self._engine.push_settings(queue, limits)
            self._pushed[queue] = (identity, limits)

    async def _mirror_pause(self, queue: str, epoch: int, found: Observed, settings: QueueSettings) -> None:
        """Within one incarnation people pause and resume in the engine, and the ledger follows."""
        if found.paused == (settings.paused is True):
            return
        if await self._ledger.fetch(MIRROR, queue=queue, epoch=epoch, paused=found.paused):
            log.info("queue %s was %s; the ledger keeps it", queue, "paused" if found.paused else "resumed")

    def _accept(self, queue: str, identity: str, epoch: int) -> None:
        self._verified[queue] = (identity, epoch)
        if queue in self._stale:
            self._stale.discard(queue)
            log.info("queue %s: the engine is the current one again", queue)

    def _forget(self, queue: str) -> None:
        self._verified.pop(queue, None)
        self._stale.discard(queue)
        self._back_off.succeed(queue)

    def _refuse(self, queue: str, identity_epoch: int, current_epoch: int) -> None:
        self._verified.pop(queue, None)
        if queue not in self._stale:
            self._stale.add(queue)
            log.error(
                "queue %s: stale server, its data is of epoch %d and the ledger is at %d: nothing is dispatched to it",
                queue,
                identity_epoch,
                current_epoch,
            )
