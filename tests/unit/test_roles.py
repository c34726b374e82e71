"""Who may do what: decided in one table, and enforced where every deed is kept."""

from typing import Any, cast
from unittest.mock import AsyncMock

import pytest

from homing.errors import NotPermitted
from homing.ledger.actions import Person, Role, keep_action
from homing.operations.enqueueing import enqueue


class Kept:
    """Stands for a transaction; remembers what was written."""

    def __init__(self) -> None:
        self.written: list[dict[str, object]] = []

    async def fetch(self, statement: object, **values: object) -> list[Any]:
        self.written.append(values)
        return [{"id": 1}]


@pytest.mark.parametrize(
    ("role", "action", "allowed"),
    [
        (Role.VIEWER, "pause", False),
        (Role.VIEWER, "redrive", False),
        (Role.OPERATOR, "pause", True),
        (Role.OPERATOR, "redrive", True),
        (Role.OPERATOR, "obliterate", False),
        (Role.OPERATOR, "an action of tomorrow", False),
        (Role.ADMIN, "obliterate", True),
    ],
)
async def test_a_deed_is_kept_only_for_somebody_who_may_do_it(role: Role, action: str, allowed: bool) -> None:  # noqa: FBT001
    """Roles stand in one order, and what nobody thought of is an administrator's."""
    kept, person = Kept(), Person("eve", "because", role)
    if allowed:
        assert await keep_action(kept, person, action, {}, affected=1) == 1
        return
    with pytest.raises(NotPermitted, match=rf"eve is {role.name.lower()} and may not {action}: that needs the role"):
        await keep_action(kept, person, action, {}, affected=1)
    assert kept.written == []


async def test_who_may_not_enqueue_enqueues_nothing() -> None:
    """What is kept right after the deed is asked before it."""
    queue = AsyncMock()
    with pytest.raises(NotPermitted, match="may not enqueue"):
        await enqueue(
            cast("Any", Kept()), queue, "send", {}, options={}, person=Person("eve", "because", Role.OPERATOR)
        )
    queue.enqueue.assert_not_called()
