"""What people do to deliveries is kept: who, when, what, how many and why, in the same transaction as the deed."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from homing.events.codec import dump_json
from homing.ledger.ledger import Row
from homing.ledger.statements import ACT
from homing.schema.statement import Statement


class Statements(Protocol):
    """Where a statement can be run: the ledger (a transaction of its own) or an open transaction on it."""

    async def fetch(self, statement: Statement, **values: object) -> list[Row]:
        """Run one statement and return its rows."""
        ...


@dataclass(frozen=True, slots=True)
class Person:
    """Who acts, and why: `name` as in `alice@host`, `reason` in their own words."""

    name: str
    reason: str | None = None


async def keep_action(
    where: Statements, person: Person, action: str, subject: Mapping[str, object], *, affected: int
) -> int:
    """Write down what was done, in the caller's transaction, and return the record's id.

    `action` is the verb (`redrive`, `cancel`, `backfill`, `prune`); `subject` says to what, as far as JSON can.
    """
    rows = await where.fetch(
        ACT, actor=person.name, action=action, subject=dump_json(dict(subject)), affected=affected, reason=person.reason
    )
    return int(rows[0]["id"])
