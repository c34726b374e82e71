"""Campaigns on a running system: each letter once whoever started what, a canary, a stop, a runner that dies."""

import asyncio
import os
import sys
from collections import Counter
from collections.abc import AsyncIterator

import asyncpg
import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from homing import Event, Homing, PermanentError, Transaction
from homing.clock import ManualClock
from homing.config.settings import Settings
from homing.deadletters.campaign import Campaign, Terms
from homing.deadletters.campaigns import Campaigns
from homing.deadletters.filters import Filter
from homing.deadletters.runner import CampaignRunner
from homing.durations import seconds
from homing.errors import Refused, ServerUnavailable
from homing.ledger.actions import Person
from homing.ledger.ledger import Ledger
from tests.integration.buried import actions, bury
from tests.system import System, quick, running, with_sessions
from tests.waiting import until

ALICE = Person("alice@desk", "the partner is back")
WORK = Filter(consumer="work.do")
FAST = Terms(rate=100_000)
LETTERS = 200
TRAFFIC = 50


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


class Asked(Event, topic="dead.asked", unrouted=True):
    number: int


class Partner:
    """Whether the other side answers."""

    def __init__(self) -> None:
        self.answers = True


def app_of(settings: Settings, partner: Partner) -> Homing:
    """An app whose handler leaves a row for each effect, and dies at once while the partner does not answer."""
    app = Homing("test")

    @app.queue("work").handler("do", on=Asked)
    async def do(event: Asked, tx: Transaction[AsyncSession]) -> None:
        if not partner.answers:
            raise PermanentError("no answer")
        await tx.execute(text("INSERT INTO effects VALUES (:number)"), {"number": event.number})

    return with_sessions(app, settings)


async def effects(system: System) -> Counter[int]:
    """How often each number had its effect."""
    return Counter(row["number"] for row in await system.sql.fetch("SELECT number FROM effects"))


async def carry_out(ledger: Ledger, campaign: Campaign, runner: CampaignRunner) -> Campaign:
    """Step after step until it has ended, whoever does it."""

    async def ended() -> Campaign | None:
        await runner.advance(campaign.id)
        found = (await Campaigns(ledger).read(campaign.id)).campaign
        return found if found.state != "running" else None

    found = await until(ended, 60, "the campaign has ended")
    assert found is not None
    return found


async def test_started_twice_under_traffic_each_letter_runs_once(settings: Settings) -> None:
    """Two campaigns of the same filter, each with two runners, while events flow: every effect happens once, every letter is counted once."""
    async with running(app_of(settings, Partner()), quick(settings)) as system:
        await system.sql.execute("CREATE TABLE effects (number int)")
        await bury(system.sql, LETTERS)
        campaigns = Campaigns(system.ledger)
        started = [await campaigns.start(WORK, FAST, ALICE) for _ in range(2)]
        runners = [CampaignRunner(system.ledger) for _ in range(2)]
        work = [asyncio.create_task(carry_out(system.ledger, one, runner)) for one in started for runner in runners]
        for number in range(TRAFFIC):
            await system.record(Asked(number=LETTERS + number))
        ended = await asyncio.gather(*work)
        await system.settled(30)
        assert await effects(system) == Counter(range(LETTERS + TRAFFIC))
        assert {campaign.state for campaign in ended} == {"finished"}
        redriven = [(await campaigns.read(campaign.id)).campaign for campaign in started]
        assert sum(campaign.redriven for campaign in redriven) == LETTERS
        assert all(set(campaign.refused) <= {"closed"} for campaign in redriven)
        assert [progress.done for progress in await campaigns.list()] == [
            campaign.redriven for campaign in reversed(redriven)
        ]
        assert await system.sql.fetchval("SELECT max(generation) FROM homing.deliveries") == 2


async def test_the_canary_and_the_count_of_deaths_stop_what_would_die_again(settings: Settings) -> None:
    """With the cause still there, a canary costs its letters and no more, and without one the Nth like death stops; then all come through."""
    partner = Partner()
    partner.answers = False
    async with running(app_of(settings, partner), quick(settings)) as system:
        await system.sql.execute("CREATE TABLE effects (number int)")
        await system.record(*(Asked(number=number) for number in range(8)))
        await system.settled(30)
        campaigns = Campaigns(system.ledger)

        runner = CampaignRunner(system.ledger)
        careful = await campaigns.start(WORK, Terms(rate=100_000, canary=3), ALICE, runner=runner.id)
        stopped = await carry_out(system.ledger, careful, runner)
        assert (stopped.state, stopped.redriven) == ("stopped", 3)
        assert stopped.end_reason in {f"{died} of the first 3 died again (canary 3)" for died in (1, 2, 3)}
        await system.settled(30)

        clock = ManualClock()
        runner = CampaignRunner(system.ledger, clock=clock)
        bold = await campaigns.start(WORK, Terms(rate=1, stop_after=2), ALICE, runner=runner.id)
        for deaths in (1, 2):
            await runner.advance(bold.id)
            await system.settled(30)
            assert (await campaigns.read(bold.id)).dead_again == deaths
            clock.advance(seconds(1))
        await runner.advance(bold.id)
        found = (await campaigns.read(bold.id)).campaign
        assert (found.state, found.redriven, found.died_again) == ("stopped", 2, 2)
        assert str(found.end_reason).startswith("2 deliveries died again of ")

        careless = await campaigns.start(WORK, Terms(rate=1000, stop_after=None), ALICE, runner=runner.id)
        for _ in range(3):
            await runner.advance(careless.id)
            await system.settled(30)
            clock.advance(seconds(1))
        found = (await campaigns.read(careless.id)).campaign
        assert (found.state, found.redriven) == ("finished", 8), "a campaign does not chase the deaths that it causes"

        partner.answers = True
        runner = CampaignRunner(system.ledger)
        last = await campaigns.start(WORK, Terms(rate=1000, canary=2), ALICE, runner=runner.id)
        finished = await carry_out(system.ledger, last, runner)
        await system.settled(30)
        assert (finished.state, finished.redriven, finished.canary_passed) == ("finished", 8, True)
        assert await effects(system) == Counter(range(8))


async def test_a_relay_goes_on_where_a_killed_command_ended(settings: Settings) -> None:
    """Once the lease of a killed command ends, a relay takes its campaign up: nothing is redriven again, and the counts are exact."""
    async with running(app_of(settings, Partner()), quick(settings)) as system:
        await system.sql.execute("CREATE TABLE effects (number int)")
        await bury(system.sql, 30)
        await system.sql.execute("DELETE FROM homing.outbox_events WHERE payload->>'number' = '7'")
        command = [sys.executable, "-m", "homing", "redrive", "--everything", "--rate", "20", "--why", "x", "--yes"]
        environment = {
            "PATH": os.environ["PATH"],
            "DATABASE_URL": settings.asyncpg_dsn,
            "REDIS_URL": settings.redis_dsn,
        }
        process = await asyncio.create_subprocess_exec(*command, env=environment, stderr=asyncio.subprocess.DEVNULL)
        campaigns = Campaigns(system.ledger)

        async def begun() -> Campaign | None:
            found = await campaigns.list()
            return found[0].campaign if found and found[0].campaign.redriven >= 3 else None

        campaign = await until(begun, 60, "the command has redriven some")
        process.kill()
        await process.wait()
        assert campaign is not None
        assert campaign.state == "running"
        await system.sql.execute("UPDATE homing.redrive_campaigns SET rate = 1000, runner_until = now()")

        async def finished() -> bool:
            return (await campaigns.read(campaign.id)).campaign.state == "finished"

        await until(finished, 30, "the relay has carried the campaign out")
        await system.settled(30)
        found = await campaigns.read(campaign.id)
        assert (found.campaign.redriven, found.campaign.refused, found.campaign.matched) == (29, {"event gone": 1}, 30)
        assert (found.done, found.pending, found.dead_again) == (29, 0, 0)
        assert await effects(system) == Counter(set(range(30)) - {7})


async def test_a_page_that_is_broken_off_is_counted_all_the_same(ledger: Ledger, sql: asyncpg.Connection) -> None:
    """An error in the middle of a page loses no count and skips no letter: the page is taken again, and finds open what was left."""
    numbers = await bury(sql, 20)
    campaigns = Campaigns(ledger)
    runner = CampaignRunner(ledger)
    campaign = await campaigns.start(WORK, FAST, ALICE, runner=runner.id)
    await sql.execute(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE lock_not_available; END $$;"
        f"CREATE TRIGGER refuse BEFORE UPDATE ON homing.dead_letters FOR EACH ROW WHEN (OLD.id = {numbers[9]}) EXECUTE FUNCTION refuse()"
    )
    with pytest.raises(ServerUnavailable):
        await runner.advance(campaign.id)
    broken = (await campaigns.read(campaign.id)).campaign
    closed = await sql.fetchval("SELECT count(*) FROM homing.dead_letters WHERE closed_at IS NOT NULL")
    assert broken.redriven == closed < 20
    await sql.execute("DROP TRIGGER refuse ON homing.dead_letters")
    ended = await carry_out(ledger, campaign, runner)
    assert (ended.state, ended.redriven, ended.refused) == ("finished", 20, {})


async def test_people_pause_resume_and_stop_and_all_of_it_is_kept(ledger: Ledger, sql: asyncpg.Connection) -> None:
    """A paused campaign takes nothing until it is resumed, a stopped one never again; who did what and why is written down."""
    await bury(sql, 5)
    campaigns = Campaigns(ledger)
    runner = CampaignRunner(ledger)
    campaign = await campaigns.start(WORK, Terms(rate=1), ALICE, runner=runner.id)
    await campaigns.pause(campaign.id, Person("bob", "lunch"))
    assert await runner.advance(campaign.id) is None
    await campaigns.resume(campaign.id, Person("bob", None))
    assert await runner.advance(campaign.id) is not None
    assert (await campaigns.stop(campaign.id, Person("eve", "wrong ones"))).redriven == 1
    assert await runner.advance(campaign.id) is None
    for deed in (campaigns.stop, campaigns.pause, campaigns.resume):
        with pytest.raises(Refused, match="is stopped"):
            await deed(campaign.id, ALICE)
    for chosen in (Filter(), Filter(consumer="nobody.does")):
        with pytest.raises(Refused, match=r"^(an empty filter|no open dead letter)"):
            await campaigns.start(chosen, FAST, ALICE)
    deeds = await sql.fetch("SELECT subject->>'deed' AS deed, affected FROM homing.operator_actions ORDER BY id")
    assert [tuple(row) for row in deeds] == [("started", 5), ("paused", 0), ("resumed", 0), ("stopped", 1)]
    assert [row[0] for row in await actions(sql)] == ["alice@desk", "bob", "bob", "eve"]
