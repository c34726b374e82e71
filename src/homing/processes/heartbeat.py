"""The row by which a process says that it lives, and what it does."""

import json
import logging
import os
import socket
from collections.abc import Callable, Mapping
from importlib.metadata import version
from typing import Literal
from uuid import uuid4

from homing.app.application import Homing
from homing.errors import ServerUnavailable
from homing.ledger.ledger import Ledger
from homing.ledger.statements import BEAT, LEAVE
from homing.service import Loop, Progress

log = logging.getLogger("homing.process")

BEAT_SECONDS = 10.0

Role = Literal["worker", "relay"]
Describe = Callable[[], Mapping[str, object]]


class Heartbeat:
    """Keeps one process on the list; `routes`: whether the loops of a relay turn in it. Its row vanishes when it leaves in good order."""

    def __init__(self, ledger: Ledger, app: Homing, role: Role, *, routes: bool) -> None:
        self._ledger = ledger
        self._row = {
            "id": uuid4(),
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "version": version("homing"),
            "role": role,
            "routes": routes,
            "consumers": [handler.consumer for handler in app.handlers],
            "queues": [queue.name for queue in app.queues],
        }
        self._describe: Describe = dict
        self.loop = Loop("beat", self.tick, interval_seconds=BEAT_SECONDS)

    def tell(self, describe: Describe) -> None:
        """Write what `describe` says with every beat, from now on."""
        self._describe = describe
        self.loop.wake()

    async def tick(self) -> Progress:
        """One beat."""
        await self._ledger.fetch(BEAT, **self._row, state=json.dumps(self._describe()))
        return Progress.REST

    async def leave(self) -> None:
        """Beat no more."""
        await self.loop.stop()
        try:
            await self._ledger.fetch(LEAVE, id=self._row["id"])
        except ServerUnavailable as error:
            log.warning("this process stays on the list of workers until it is found silent: %s", error)
