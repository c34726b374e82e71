"""Carrying out a plan: each fault at its moment, told with the time when it had happened."""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from shop.soak import partners, servers
from shop.soak.plan import Fault, Strike
from shop.soak.processes import Deed, freeze, kill
from shop.soak.scene import Scene

DEEDS: Mapping[Fault, Deed] = {
    Fault.WORKER_KILLED: kill(lambda scene: scene.stage.workers),
    Fault.RELAY_KILLED: kill(lambda scene: scene.stage.relays),
    Fault.API_KILLED: kill(lambda scene: scene.stage.apis),
    Fault.WORKER_FROZEN: freeze(lambda scene: scene.stage.workers),
    Fault.RELAY_FROZEN: freeze(lambda scene: scene.stage.relays),
    Fault.VALKEY_FLUSHED: servers.flush_valkey,
    Fault.VALKEY_KILLED: servers.kill_valkey,
    Fault.VALKEY_FROZEN: servers.freeze_valkey,
    Fault.VALKEY_CUT_SHORT: servers.cut_valkey_short,
    Fault.POSTGRES_RESTARTED: servers.restart_postgres,
    Fault.POSTGRES_CRASHED: servers.crash_postgres,
    Fault.GATEWAY_LIES: partners.gateway_lies,
    Fault.GATEWAY_HANGS: partners.gateway_hangs,
    Fault.CARRIER_LIES: partners.carrier_lies,
    Fault.CARRIER_THROTTLES: partners.carrier_throttles,
    Fault.MAIL_LIES: partners.mail_lies,
}
"""How each fault is brought about; each deed ends when what it did to a server is undone, and says what it did."""


class Chaos:
    """Brings about the faults of a plan; several may last at the same time. `struck`: those that have happened."""

    def __init__(self, scene: Scene, tell: Callable[[str], object]) -> None:
        self._scene = scene
        self._tell = tell
        self.struck: Counter[Fault] = Counter()

    async def run(self, plan: Sequence[Strike]) -> None:
        """Return when every fault of the plan has happened and is over."""
        start = asyncio.get_running_loop().time()
        async with asyncio.TaskGroup() as strikes:
            for strike in plan:
                await asyncio.sleep(start + strike.at_seconds - asyncio.get_running_loop().time())
                strikes.create_task(self._strike(strike))

    async def _strike(self, strike: Strike) -> None:
        done = await DEEDS[strike.fault](self._scene, strike.pick)
        self.struck[strike.fault] += 1
        self._tell(f"{strike.fault.value}: {done}")
