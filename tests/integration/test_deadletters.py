"""Finding dead letters: filters, pages, groups, one with its history, and what that costs."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import asyncpg
import pytest

from homing.config.settings import Settings
from homing.deadletters.campaigns import CAMPAIGNS
from homing.deadletters.filters import Filter
from homing.deadletters.letters import HISTORY, LIST, NEWEST, group_letters, letter_history, list_letters, show_letter
from homing.deadletters.runner import CANARY, DEATHS, DUE, PAGE_OF
from homing.errors import UnknownId
from homing.ledger.ledger import Ledger
from tests.integration.buried import bury
from tests.integration.test_plans import explain, indexes, read_whole

BACKLOG = 5_000


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


async def test_every_condition_chooses(ledger: Ledger, sql: asyncpg.Connection) -> None:
    """Each condition alone, and both ends of time; in any case where it is text, and without meaning for % and _."""
    plain = await bury(sql, 2)
    other = await bury(
        sql, 1, consumer="mail.send", fingerprint="f2", error_class="Refused", text="100% of Ổi_", kind="torn"
    )
    await sql.execute("UPDATE homing.dead_letters SET failed_at = '2030-01-01Z' WHERE id = $1", other[0])
    moment = datetime(2030, 1, 1, tzinfo=UTC)
    for chosen, expected in (
        (Filter(), [*plain, *other]),
        (Filter(consumer="mail.send"), other),
        (Filter(queue="work"), plain),
        (Filter(kind="torn"), other),
        (Filter(fingerprint="f1"), plain),
        (Filter(error_class="Refused"), other),
        (Filter(error_text="0% OF ổ"), other),
        (Filter(error_text="%"), other),
        (Filter(since=moment), other),
        (Filter(until=moment), plain),
        (Filter(until=moment + timedelta(seconds=1)), [*plain, *other]),
        (Filter(ids=(plain[1], 77)), plain[1:]),
        (Filter(ids=()), []),
        (Filter(fingerprint="f1", queue="mail"), []),
    ):
        page = await list_letters(ledger, chosen, is_open=True)
        assert [row["id"] for row in page.letters] == sorted(expected, reverse=True), chosen
        assert (await group_letters(ledger, chosen)).letters == len(expected), chosen
        rows = await ledger.fetch(PAGE_OF, **chosen.parameters(), after=0, last=NEWEST, most=100)
        assert [row["id"] for row in rows] == expected, chosen


async def test_pages_follow_each_other(ledger: Ledger, sql: asyncpg.Connection) -> None:
    """Newest first, by id: no letter twice, none missing, also when some are closed meanwhile; open and closed are told apart."""
    numbers = await bury(sql, 7)
    first = await list_letters(ledger, Filter(), is_open=True, most=3)
    await sql.execute(
        "UPDATE homing.dead_letters SET closed_at = now(), closed_as = 'dismissed' WHERE id = $1", numbers[2]
    )
    assert first.before is not None
    second = await list_letters(ledger, Filter(), is_open=True, before=first.before, most=3)
    assert [row["id"] for row in (*first.letters, *second.letters)] == [
        *numbers[:3:-1],
        numbers[3],
        numbers[1],
        numbers[0],
    ]
    closed = await list_letters(ledger, Filter(), is_open=False)
    assert ([row["id"] for row in closed.letters], closed.before) == ([numbers[2]], None)
    assert len((await list_letters(ledger, Filter(), is_open=None)).letters) == 7


async def test_groups_count_what_a_redrive_would_refuse(ledger: Ledger, sql: asyncpg.Connection) -> None:
    """Per fingerprint: how many, since when, how the newest reads, and whose event or death is gone; the sums hold for those not listed too."""
    many = await bury(sql, 5, first=0)
    few = await bury(sql, 2, first=5, fingerprint="f2", text="another")
    await sql.execute("DELETE FROM homing.outbox_events WHERE payload->>'number' IN ('0', '1')")
    await sql.execute(
        "UPDATE homing.deliveries SET outcome = 'done' WHERE event_id = (SELECT event_id FROM homing.dead_letters WHERE id = $1)",
        few[0],
    )
    await sql.execute('UPDATE homing.dead_letters SET error = error || \'{"text": "newest"}\' WHERE id = $1', many[-1])
    groups = await group_letters(ledger, Filter(), most=1)
    (first,) = groups.groups
    assert (first["fingerprint"], first["letters"], first["gone"], first["settled"]) == ("f1", 5, 2, 0)
    assert (first["consumer"], first["error_class"], first["sample"]) == ("work.do", "OutOfOrder", "newest")
    assert (groups.letters, groups.gone, groups.settled) == (7, 2, 1)
    assert groups.oldest is not None
    assert groups.oldest <= first["oldest"] <= first["newest"]


async def test_one_letter_is_shown_with_its_history(ledger: Ledger, sql: asyncpg.Connection) -> None:
    """Every death of its delivery in order, whatever was pruned meanwhile; an id that names nothing is unknown."""
    (first,) = await bury(sql, 1)
    await sql.execute("UPDATE homing.dead_letters SET closed_at = now(), closed_as = 'redriven'")
    second = await sql.fetchval(
        "INSERT INTO homing.dead_letters (event_id, consumer, generation, queue, job_name, job_id, kind, data, error, fingerprint,"
        " attempts_made) SELECT event_id, consumer, 2, queue, job_name, job_id, 'expired', data, error, fingerprint, 0"
        " FROM homing.dead_letters RETURNING id"
    )
    await sql.execute("DELETE FROM homing.outbox_events")
    row = await show_letter(ledger, second)
    assert (row["topic"], row["payload"], row["outcome"]) == (None, None, "dead")
    assert [(death["id"], death["kind"]) for death in await letter_history(ledger, row)] == [
        (first, "failed"),
        (second, "expired"),
    ]
    with pytest.raises(UnknownId, match="there is no dead letter 99"):
        await show_letter(ledger, 99)


async def test_looking_and_redriving_read_what_they_are_about(ledger: Ledger, sql: asyncpg.Connection) -> None:
    """Thousands of closed letters cost a page of open ones nothing; a campaign's questions go by key, id and campaign."""
    await bury(sql, BACKLOG)
    await sql.execute(
        "UPDATE homing.dead_letters SET closed_at = now(), closed_as = 'redriven', campaign = gen_random_uuid()"
    )
    numbers = await bury(sql, 20, fingerprint="f2")
    await sql.execute("ANALYZE homing.dead_letters, homing.deliveries, homing.outbox_events")
    one = await show_letter(ledger, numbers[0])
    chosen = Filter(fingerprint="f2").parameters()
    campaign = {"campaign": one["event_id"]}
    for statement, values in (
        (LIST, {**chosen, "open": True, "before": NEWEST, "most": 10}),
        (LIST, {**Filter(consumer="work.do").parameters(), "open": None, "before": NEWEST, "most": 10}),
        (PAGE_OF, {**Filter(consumer="work.do").parameters(), "after": 0, "last": NEWEST, "most": 10}),
        (PAGE_OF, {**chosen, "after": 0, "last": NEWEST, "most": 10}),
        (HISTORY, {"event_id": one["event_id"], "consumer": "work.do", "most": 10}),
        (DEATHS, {**campaign, "last_letter": numbers[10]}),
        (CANARY, campaign),
        (CAMPAIGNS, {**campaign, "most": 10}),
        (DUE, {"runner": one["event_id"], "most": 10}),
    ):
        plan = await explain(sql, statement, **values)
        assert read_whole(plan) == set(), (statement.name, indexes(plan))
