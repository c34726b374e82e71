"""The outbox does not grow for ever: what is settled is kept for a week."""

from collections.abc import Mapping

from homing import Homing
from homing.durations import days
from homing.prune import prune

KEPT = days(7)


class OutboxCleanUp:
    """Deletes old events with their deliveries; those that something still needs stay, however old."""

    def __init__(self, app: Homing) -> None:
        self._app = app

    async def run(self) -> Mapping[str, int]:
        """How many rows left, by table."""
        return await prune(self._app, events=KEPT)
