"""What people did, as it was kept: pages of it, newest first. The trail of people's actions; what the ledger holds is audited elsewhere."""

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from homing.ledger.actions import Statements
from homing.ledger.ledger import Row
from homing.schema.statement import load

ACTIONS = load("homing.operations", "actions")

WALK = 20_000
"""Actions that one page looks at, at most."""

NEWEST = 2**63 - 1
"""The id after all actions: the first page begins before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """One deed: who, when, what, to what, how many, and why."""

    id: int
    at: datetime
    actor: str
    action: str
    subject: Any
    affected: int
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionPage:
    """Some actions. `after` asks for the next page; `None` when this is the last one."""

    actions: tuple[Action, ...]
    after: int | None


async def list_actions(
    where: Statements,
    *,
    actor: str | None = None,
    action: str | None = None,
    since: datetime | None = None,
    after: int | None = None,
    most: int = 50,
) -> ActionPage:
    """A page of actions that every given condition fits."""
    walk = most if actor is None and action is None and since is None else max(WALK, most)
    before = NEWEST if after is None else after
    rows = await where.fetch(ACTIONS, actor=actor, action=action, since=since, before=before, walk=walk, page=most)
    found = tuple(_action(row) for row in rows if row["id"] is not None)
    end = found[-1].id if len(found) == most else rows[0]["last"] if rows[0]["walked"] == walk else None
    return ActionPage(actions=found, after=end)


def _action(row: Row) -> Action:
    return Action(
        id=row["id"],
        at=row["at"],
        actor=row["actor"],
        action=row["action"],
        subject=json.loads(row["subject"]),
        affected=row["affected"],
        reason=row["reason"],
    )
