"""What the faults reach for: the stage, its two servers, and who may touch them."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from homing.embedded import EmbeddedPostgres, EmbeddedValkey
from homing.errors import ConfigurationError
from shop.trial.children import Child
from shop.trial.stage import Stage

PAUSE_SECONDS = 0.1


@dataclass(kw_only=True)
class Scene:
    """A stage on servers of its own; one fault at a time may stop or start the same server, or throttle the carrier."""

    stage: Stage
    postgres: EmbeddedPostgres
    valkey: EmbeddedValkey
    frozen: set[Child] = field(default_factory=set)
    postgres_turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    valkey_turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    carrier_turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    @classmethod
    def of(cls, stage: Stage) -> "Scene":
        """The scene on this stage; a `ConfigurationError` where the servers are somebody else's."""
        servers = stage.servers
        if servers.postgres is None or servers.valkey is None:
            raise ConfigurationError("a soak stops and cuts its servers, so it starts its own: give it no URLs")
        return cls(stage=stage, postgres=servers.postgres, valkey=servers.valkey)

    async def choose(self, members: Sequence[Child], pick: float) -> Child:
        """One of those that run and are not frozen, by a number from 0 up to 1; waits until there is one."""
        while True:
            able = [child for child in members if child.running and child not in self.frozen]
            if able:
                return able[int(pick * len(able))]
            await asyncio.sleep(PAUSE_SECONDS)
