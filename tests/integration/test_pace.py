"""The pace between two looks, and following what happens: nothing is counted or told twice, and little is missed."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime

import asyncpg
import pytest

from homing.config.settings import Settings
from homing.ids import new_event_id
from homing.ledger.ledger import Ledger
from homing.operations.following import Follower
from homing.operations.pace import read_open_work, read_pace
from tests.integration.buried import bury

OPEN = "INSERT INTO homing.deliveries (event_id, consumer, queue, job_name) SELECT unnest($1::uuid[]), $2, 'q', 'c'"
SETTLE = (
    "UPDATE homing.deliveries SET outcome = 'done', settled_at = clock_timestamp() WHERE event_id = ANY ($1::uuid[])"
)
ACT = "INSERT INTO homing.operator_actions (actor, action, subject, affected, reason) VALUES ('a@h', $1, '{}', 1, 'so')"


@pytest.fixture
async def sql(settings: Settings) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(settings.asyncpg_dsn)
    yield connection
    await connection.close()


@pytest.fixture
async def ledger(settings: Settings) -> AsyncIterator[Ledger]:
    ledger = Ledger(settings.asyncpg_dsn, engine="redis", application="test")
    await ledger.open()
    yield ledger
    await ledger.close()


async def test_the_pace_counts_old_work_that_left_and_new_work_that_came_and_went(
    ledger: Ledger, sql: asyncpg.Connection
) -> None:
    """Thirty of fifty old ones, ten that were opened and settled meanwhile, and neither what stays open nor what was settled before."""
    old, fresh, stays = ([new_event_id() for _ in range(number)] for number in (50, 10, 5))
    before = [new_event_id() for _ in range(7)]
    await sql.execute(OPEN, before, "q.c")
    await sql.execute(SETTLE, before)
    await sql.execute(OPEN, old, "q.c")
    first = await read_open_work(ledger)
    assert first.unsettled == {"q.c": 50}
    await sql.execute(SETTLE, old[:30])
    await sql.execute(OPEN, fresh, "q.c")
    await sql.execute(SETTLE, fresh)
    await sql.execute(OPEN, stays, "q.c")
    await bury(sql, 4, consumer="mail.send")
    second, paces = await read_pace(ledger, first)
    seconds = (second.at - first.at).total_seconds()
    counted = {
        pace.consumer: (round(pace.settled_per_second * seconds), round(pace.dead_per_second * seconds), pace.unsettled)
        for pace in paces
    }
    assert counted == {"q.c": (40, 0, 25), "mail.send": (0, 4, 0)}
    _, paces = await read_pace(ledger, second)
    assert [(pace.consumer, pace.settled_per_second, pace.unsettled) for pace in paces] == [("q.c", 0.0, 25)]


async def test_a_tail_tells_each_thing_once_also_one_that_was_committed_late(
    ledger: Ledger, sql: asyncpg.Connection, settings: Settings
) -> None:
    """Nothing from before; settled deliveries, deaths and deeds since; what a slow transaction kept back comes with the next look."""
    await bury(sql, 3)
    await sql.execute(ACT, "old")
    follower, narrow = Follower(ledger), Follower(ledger, consumer="q.c")
    assert [*await follower.look(), *await narrow.look()] == []
    slow = await asyncpg.connect(settings.asyncpg_dsn)
    late = slow.transaction()
    await late.start()
    await slow.execute(ACT, "late")
    await sql.execute(ACT, "prompt")
    events = [new_event_id(), new_event_id()]
    await sql.execute(OPEN, events[:1], "q.c")
    await sql.execute(OPEN, events[1:], "q.other")
    await sql.execute(SETTLE, events)
    await bury(sql, 1, consumer="mail.send", text="no such box")
    happened = await follower.look()
    assert sorted((each.kind, each.subject) for each in happened) == [
        ("action", "a@h"),
        ("dead", "mail.send"),
        ("settled", "q.c"),
        ("settled", "q.other"),
    ]
    assert all(each.at > datetime(2020, 1, 1, tzinfo=UTC) for each in happened)
    assert [each.at for each in happened] == sorted(each.at for each in happened)
    assert [(each.kind, each.subject) for each in await narrow.look()] == [("settled", "q.c")]
    await late.commit()
    await slow.close()
    assert [each.text.partition(" ")[0] for each in await follower.look()] == ["late"]
    assert [*await follower.look(), *await narrow.look()] == []
