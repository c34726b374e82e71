"""Redriving one dead delivery: once, or refused with the reason; against everything that may happen at the same moment."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import asyncpg
import pytest

from homing.config.settings import Retention, Settings
from homing.deadletters import DeadLetters, Death, report_text
from homing.deadletters.redrive import Redrive, reopen
from homing.errors import Refused, UnknownId
from homing.ledger.actions import Person
from homing.ledger.ledger import Ledger
from homing.ledger.statements import SETTLE
from homing.service import Progress
from homing.upkeep import Prune
from tests.integration.buried import actions, bury, letter
from tests.waiting import until

ALICE = Person("alice@desk", "the partner is back")
ACTION = ("alice@desk", "redrive", 1, "the partner is back")


@pytest.fixture
async def ledger(settings: Settings) -> AsyncIterator[Ledger]:
    """An open ledger."""
    ledger = Ledger(settings.asyncpg_dsn, engine="redis", application="test")
    await ledger.open()
    yield ledger
    await ledger.close()


@pytest.fixture
async def sql(settings: Settings) -> AsyncIterator[asyncpg.Connection]:
    """A connection of the test's own."""
    connection = await asyncpg.connect(settings.asyncpg_dsn)
    yield connection
    await connection.close()


async def test_two_redrives_at_once_are_one(ledger: Ledger, sql: asyncpg.Connection) -> None:
    """One opens the delivery as its next generation, due now, and closes the letter; the other is told who was first."""
    (number,) = await bury(sql, 1)
    redrive = Redrive(ledger)
    answers = await asyncio.gather(*(redrive.redrive(number, ALICE) for _ in range(3)), return_exceptions=True)
    refused = [answer for answer in answers if isinstance(answer, Refused)]
    assert len(refused) == 2
    assert all(f"letter {number} was closed as redriven by alice@desk at " in str(error) for error in refused)
    found = await letter(sql, number)
    assert (found["outcome"], found["generation"], found["epoch"], found["settled_at"]) == (None, 2, 0, None)
    assert (found["closed_as"], found["closed_by"], found["closed_why"]) == ("redriven", *ACTION[::3])
    assert await sql.fetchval("SELECT count(*) FROM homing.deliveries WHERE check_at <= now()") == 1
    assert await actions(sql) == [ACTION]


OBSTACLES = {
    "DELETE FROM homing.outbox_events": "was pruned: its payload is gone",
    "DELETE FROM homing.deliveries": "the ledger does not have its row",
    "UPDATE homing.deliveries SET outcome = 'done'": "is done; dismiss the letter",
    "UPDATE homing.deliveries SET outcome = 'cancelled'": "is cancelled; dismiss the letter",
    "UPDATE homing.deliveries SET outcome = NULL, settled_at = NULL": "is pending: it will run",
    "UPDATE homing.deliveries SET generation = 2": "is of generation 1, its delivery is at 2",
    "WITH l AS (UPDATE homing.dead_letters SET generation = 32767) UPDATE homing.deliveries SET generation = 32767": (
        "was redriven 32766 times, which is the most"
    ),
    "UPDATE homing.dead_letters SET closed_at = now(), closed_as = 'late success'": "was closed as late success at ",
}


async def test_what_cannot_be_redriven_is_refused_with_the_reason(ledger: Ledger, sql: asyncpg.Connection) -> None:
    """Each obstacle has its own words; nothing is changed and nothing is written down. An id that names nothing is unknown."""
    for change, expected in OBSTACLES.items():
        (number,) = await bury(sql, 1)
        await sql.execute(change)
        before = await letter(sql, number)
        with pytest.raises(Refused, match=expected):
            await Redrive(ledger).redrive(number, ALICE)
        assert await letter(sql, number) == before
        await sql.execute("TRUNCATE homing.outbox_events, homing.deliveries, homing.dead_letters")
    with pytest.raises(UnknownId, match="there is no dead letter 7"):
        await Redrive(ledger).redrive(7, ALICE)
    assert await actions(sql) == []


async def test_a_stale_run_of_the_old_generation_changes_nothing(ledger: Ledger, sql: asyncpg.Connection) -> None:
    """After a redrive a run of generation 1 can neither bury nor settle nor adopt; generation 2 can."""
    (number,) = await bury(sql, 1)
    row = await Redrive(ledger).redrive(number, ALICE)
    letters = DeadLetters(ledger)
    event_id, consumer = row["event_id"], row["consumer"]
    death = Death(
        event_id=event_id, consumer=consumer, generation=1, queue="work", job_name="do", job_id="x", topic="dead.asked",
        kind="failed", data="{}", error=report_text("E", "late"), attempts_made=8,
    )  # fmt: skip
    assert await letters.bury(death) is None
    assert await ledger.fetch(SETTLE, event_id=event_id, consumer=consumer, generation=1) == []
    assert not await letters.adopt(event_id, consumer, 1, number)
    assert (await letter(sql, number))["outcome"] is None
    assert len(await ledger.fetch(SETTLE, event_id=event_id, consumer=consumer, generation=2)) == 1


async def test_a_letter_dismissed_in_the_same_moment_leaves_the_delivery_dead(
    ledger: Ledger, sql: asyncpg.Connection
) -> None:
    """A redrive that waits for a dismissal is rolled back as a whole: no delivery runs whose letter says that it need not."""
    (number,) = await bury(sql, 1)
    async with sql.transaction():
        await sql.execute("UPDATE homing.dead_letters SET closed_at = now(), closed_as = 'dismissed'")
        redriving = asyncio.create_task(Redrive(ledger).redrive(number, ALICE))
        await _waits_for_us(sql)
    with pytest.raises(Refused, match="was closed as dismissed"):
        await redriving
    found = await letter(sql, number)
    assert (found["outcome"], found["generation"], found["closed_as"]) == ("dead", 1, "dismissed")


async def test_redrive_and_prune_exclude_each_other(ledger: Ledger, sql: asyncpg.Connection) -> None:
    """Prune first: the redrive waits for it and is refused. Redrive first: prune leaves the event alone, without waiting. Never an open row without event."""
    pruned, redriven, dismissed = await bury(sql, 3)
    event_id = (await letter(sql, pruned))["event_id"]
    async with sql.transaction():
        await sql.execute("DELETE FROM homing.outbox_events WHERE id = $1", event_id)
        await sql.execute("DELETE FROM homing.deliveries WHERE event_id = $1", event_id)
        redriving = asyncio.create_task(Redrive(ledger).redrive(pruned, ALICE))
        await _waits_for_us(sql)
    with pytest.raises(Refused, match="was pruned"):
        await redriving
    await Redrive(ledger).dismiss([dismissed], ALICE)
    nothing = timedelta(0)
    pruner = Prune(ledger, Retention.model_construct(events=nothing, inbox=nothing, dead_letters=nothing))
    async with ledger.transaction() as tx, asyncio.timeout(10):
        row = await reopen(tx, redriven, ALICE)
        while await pruner.tick() is Progress.AGAIN:
            pass
    assert await sql.fetchval("SELECT array_agg(id) FROM homing.outbox_events") == [row["event_id"]]
    assert await sql.fetchval("SELECT array_agg(event_id) FROM homing.deliveries") == [row["event_id"]]


async def test_dismissed_letters_are_closed_once(ledger: Ledger, sql: asyncpg.Connection) -> None:
    """Only open letters are closed and counted; their deliveries stay dead."""
    numbers = await bury(sql, 3)
    redrive = Redrive(ledger)
    assert await redrive.dismiss(numbers[:2], ALICE) == numbers[:2]
    assert await redrive.dismiss([*numbers[:2], 999], ALICE) == []
    assert await sql.fetchval("SELECT count(*) FROM homing.deliveries WHERE outcome = 'dead'") == 3
    assert await sql.fetchval("SELECT count(*) FROM homing.dead_letters WHERE closed_at IS NULL") == 1
    assert await actions(sql) == [("alice@desk", "dismiss", 2, ALICE.reason)]


async def _waits_for_us(sql: asyncpg.Connection) -> None:
    """Until somebody waits for a row that this connection's transaction holds."""

    async def waiting() -> bool:
        return bool(
            await sql.fetchval(
                "SELECT count(*) FROM pg_stat_activity WHERE pg_backend_pid() = ANY(pg_blocking_pids(pid))"
            )
        )

    await until(waiting, what="the redrive waits for this transaction")
