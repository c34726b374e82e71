"""`await prune(app)`: what relays do every ten minutes, at a moment of your own, as in a schedule or a program without a relay."""

from collections.abc import Mapping
from datetime import timedelta

from homing.app import Homing
from homing.errors import ConfigurationError
from homing.ledger.ledger import Ledger
from homing.service import Progress
from homing.upkeep import Prune

__all__ = ["prune"]


async def prune(app: Homing, *, events: timedelta | None = None) -> Mapping[str, int]:
    """Delete what is settled and past its retention, in small transactions of its own; how many rows left, by table.

    `events`: how long settled events are kept, instead of the setting. Nothing that anything still needs leaves. It may be run by any number of
    processes at once, and again after an error. Raises `ConfigurationError` for a time below zero, and what opening the ledger raises.
    """
    if events is not None and events < timedelta(0):
        raise ConfigurationError(f"prune(events={events}): events are kept for a time, and not for less than none")
    settings = app.settings
    retention = settings.retention if events is None else settings.retention.model_copy(update={"events": events})
    ledger = Ledger(settings.asyncpg_dsn, engine=settings.engine, application="homing prune", connections=1)
    await ledger.open()
    try:
        work = Prune(ledger, retention)
        while await work.tick() is Progress.AGAIN:
            pass
    finally:
        await ledger.close()
    return work.pruned.by_table
