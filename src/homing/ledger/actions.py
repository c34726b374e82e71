"""What people do to deliveries is kept: who, when, what, how many and why, in the same transaction as the deed."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

from homing.errors import NotPermitted
from homing.events.codec import dump_json
from homing.ledger.ledger import Row
from homing.ledger.statements import ACT
from homing.schema.statement import Statement


class Statements(Protocol):
    """Where a statement can be run: the ledger (a transaction of its own) or an open transaction on it."""

    async def fetch(self, statement: Statement, **values: object) -> list[Row]:
        """Run one statement and return its rows."""
        ...


class Role(IntEnum):
    """What somebody may do; each may do what those before it may."""

    VIEWER = 1
    """Look, and change nothing."""
    OPERATOR = 2
    """Steer work: nothing that an operator does loses any of it."""
    ADMIN = 3
    """Everything, also what cannot be taken back."""


OPERATORS_ACTIONS = frozenset(
    {"pause", "resume", "limit", "retry", "promote", "cancel", "redrive", "dismiss", "release", "run"}
)
"""What an operator may do; every other action is an administrator's."""


@dataclass(frozen=True, slots=True)
class Person:
    """Who acts, and why: `name` as in `alice@host`, `reason` in their own words.

    Whoever runs commands holds the passwords of the servers and may do everything; a page says what its user may.
    """

    name: str
    reason: str | None = None
    role: Role = Role.ADMIN

    def may(self, action: str) -> bool:
        """Whether the role allows an action."""
        return self.role >= (Role.OPERATOR if action in OPERATORS_ACTIONS else Role.ADMIN)

    def require(self, action: str) -> None:
        """Raise `NotPermitted` where the role does not allow it: before anything is changed, and again when it is kept."""
        if not self.may(action):
            needed = Role.OPERATOR if action in OPERATORS_ACTIONS else Role.ADMIN
            raise NotPermitted(
                f"{self.name} is {self.role.name.lower()} and may not {action}: that needs the role {needed.name.lower()}"
            )


async def keep_action(
    where: Statements, person: Person, action: str, subject: Mapping[str, object], *, affected: int
) -> int:
    """Write down what was done, in the caller's transaction, and return the record's id.

    `action` is the verb (`redrive`, `cancel`, `backfill`, `prune`); `subject` says to what, as far as JSON can. Whoever may not do it gets
    `NotPermitted` here, which rolls the transaction back: there is no deed without this record.
    """
    person.require(action)
    rows = await where.fetch(
        ACT, actor=person.name, action=action, subject=dump_json(dict(subject)), affected=affected, reason=person.reason
    )
    return int(rows[0]["id"])
