"""Parked events: those of which no job can be made. They wait, visible, until somebody mends them and releases them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from homing.errors import UnknownId
from homing.ledger.actions import Person, keep_action
from homing.ledger.ledger import Ledger
from homing.schema.statement import load

PARKED = load("homing.operations", "parked")
RELEASE = load("homing.operations", "release")


@dataclass(frozen=True, slots=True)
class ParkedEvent:
    """An event that was recorded and cannot be routed; `error` says why."""

    event_id: UUID
    topic: str
    created_at: datetime
    error: str


async def list_parked(ledger: Ledger, most: int) -> list[ParkedEvent]:
    """At most so many parked events, the oldest first."""
    rows = await ledger.fetch(PARKED, page=most)
    return [ParkedEvent(row["event_id"], row["topic"], row["created_at"], row["parked_error"]) for row in rows]


async def release(ledger: Ledger, event_ids: Sequence[UUID], person: Person) -> int:
    """Let parked events be routed again, in one transaction that keeps who did it; how many there were.

    Raises `UnknownId` when one of them is not parked; then none is released.
    """
    async with ledger.transaction() as transaction:
        released = {row["event_id"] for row in await transaction.fetch(RELEASE, event_ids=list(event_ids))}
        strange = [str(event_id) for event_id in event_ids if event_id not in released]
        if strange:
            raise UnknownId(f"not parked: {', '.join(strange)}; nothing was released")
        await keep_action(
            transaction, person, "release", {"events": sorted(map(str, released))}, affected=len(released)
        )
    return len(released)
