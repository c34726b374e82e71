"""Keeps the number of processes, as an orchestrator would: whoever ended is replaced, and how it ended is kept."""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping

from shop.trial.children import Child
from shop.trial.stage import Crew, Stage

PAUSE_SECONDS = 0.5

NO_SERVER = (4,)
EXPECTED = {"api": (3, 4)}
"""How processes end that are started while a server is away; the API also when it goes away between its check and its start."""


class Keeper:
    """Replaces members of the crews. `ended`: by role and status, those that ended without being killed by us."""

    def __init__(self, stage: Stage, tell: Callable[[str], object]) -> None:
        self._wanted: Mapping[str, int] = {crew.role: len(crew.members) for crew in stage.crews}
        self._stage = stage
        self._tell = tell
        self.ended: Counter[tuple[str, int]] = Counter()

    @property
    def strange_ends(self) -> list[str]:
        """Ends that a server which was away does not explain, in words."""
        return [
            f"{times} × {role} ended by itself with status {status}"
            for (role, status), times in sorted(self.ended.items())
            if status not in EXPECTED.get(role, NO_SERVER)
        ]

    async def run(self) -> None:
        """Keep until cancelled."""
        while True:
            for crew in self._stage.crews:
                self._keep(crew)
            await asyncio.sleep(PAUSE_SECONDS)

    def _keep(self, crew: Crew) -> None:
        for member in [member for member in crew.members if not member.running]:
            self._note(crew, member)
        for _ in range(self._wanted[crew.role] - len(crew.members)):
            crew.add()

    def _note(self, crew: Crew, member: Child) -> None:
        crew.members.remove(member)
        status = member.wait()
        self.ended[crew.role, status] += 1
        self._tell(f"{member.name} ended by itself with status {status}; see {member.log}")
