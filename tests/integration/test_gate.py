"""The gate on real rows: jobs that come again, and what the ledger says to each of them."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import asyncpg
import pytest
from redis.asyncio import Redis
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from homing import Event, Homing, Retry, Transaction, backoff
from homing.config.settings import Settings
from homing.durations import milliseconds
from homing.events.envelope import seal
from homing.ids import DeliveryKey, JobId
from homing.queue.job import NewJob
from homing.queue.redis import RedisEngine
from tests.system import quick, running, with_sessions
from tests.waiting import until

KINDS = ["once", "at least once"]
ADD_POINTS = text("INSERT INTO points VALUES (:event_id)")
FAST = Retry(attempts=2, backoff=backoff.fixed(milliseconds(10)))


class Paid(Event, topic="gate.paid", unrouted=True):
    amount: int = 1


@dataclass(frozen=True, slots=True)
class Ledger:
    """The rows and jobs of a test, written by hand."""

    sql: asyncpg.Connection
    redis: Redis
    settings: Settings
    event_id: UUID

    async def row(
        self, consumer: str, outcome: str | None, *, generation: int = 1, age_days: int = 0, result: str | None = None
    ) -> None:
        """An event with one delivery."""
        await self.sql.execute(
            "INSERT INTO homing.outbox_events (id, topic, payload, published_at) VALUES ($1, 'gate.paid', '{}', now())",
            self.event_id,
        )
        await self.sql.execute(
            "INSERT INTO homing.deliveries (event_id, consumer, queue, job_name, generation, opened_at, outcome, settled_at, result)"
            " VALUES ($1, $2, 'mail', 'send', $3, now() - make_interval(days => $4), $5::text,"
            " CASE WHEN $5::text IS NOT NULL THEN now() END, $6::text::jsonb)",
            self.event_id, consumer, generation, age_days, outcome, result,
        )  # fmt: skip

    async def letter(self, consumer: str, *, generation: int = 1, closed: bool = False) -> int:
        """A dead letter of the delivery."""
        letter: int = await self.sql.fetchval(
            "INSERT INTO homing.dead_letters (event_id, consumer, generation, queue, job_name, job_id, kind, data, error,"
            " fingerprint, attempts_made, closed_at, closed_as) VALUES ($1, $2, $3, 'mail', 'send', 'x', 'failed', '{}', '{}',"
            " 'f', 1, CASE WHEN $4 THEN now() END, CASE WHEN $4 THEN 'redriven' END) RETURNING id",
            self.event_id, consumer, generation, closed,
        )  # fmt: skip
        return letter

    async def job(
        self,
        consumer: str,
        *,
        generation: int = 1,
        mark: str | None = None,
        age_days: int = 0,
        payload: dict[str, object] | None = None,
    ) -> JobId:
        """The job of the delivery, waiting, perhaps with a mark that an earlier finish left."""
        key = DeliveryKey(self.event_id, consumer, generation)
        opened_at = datetime.now(UTC) - timedelta(days=age_days)
        data = seal(key=key, opened_at=opened_at, payload_json=json.dumps(payload or {}), headers={"traceId": "t"})
        engine = RedisEngine(self.settings.redis_dsn, prefix=str(self.settings.prefix))
        await engine.open()
        try:
            await engine.add(
                "mail", [NewJob(id=key.job_id, name="send", data=data, timestamp_ms=1_767_225_600_000, attempts=2)]
            )
        finally:
            await engine.close()
        if mark is not None:
            await self.redis.hset(self._key(key.job_id), "homing", mark)
        return key.job_id

    async def ended(self, job_id: JobId) -> dict[str, str]:
        """The job's fields once it is finished."""

        async def finished() -> dict[str, str]:
            found = await self.redis.hgetall(self._key(job_id))
            fields = {str(name): str(value) for name, value in found.items()}
            return fields if "finishedOn" in fields else {}

        return await until(finished, what=f"job {job_id} has ended")

    async def outcome(self) -> tuple[str | None, int]:
        """What the row says: outcome and generation."""
        row = await self.sql.fetchrow(
            "SELECT outcome, generation FROM homing.deliveries WHERE event_id = $1", self.event_id
        )
        assert row is not None
        return row["outcome"], row["generation"]

    async def letters(self) -> list[tuple[str, str | None]]:
        """Kind and end of every letter."""
        rows = await self.sql.fetch("SELECT kind, closed_as FROM homing.dead_letters ORDER BY id")
        return [(row["kind"], row["closed_as"]) for row in rows]

    def _key(self, job_id: JobId) -> str:
        return f"{self.settings.prefix}:mail:{job_id}"


@pytest.fixture
async def ledger(settings: Settings) -> AsyncIterator[Ledger]:
    """A connection to each server, and an event's id."""
    async with AsyncExitStack() as stack:
        sql = await asyncpg.connect(settings.asyncpg_dsn)
        stack.push_async_callback(sql.close)
        redis = Redis.from_url(settings.redis_dsn, decode_responses=True)
        stack.push_async_callback(redis.aclose)
        await sql.execute("CREATE TABLE points (event_id uuid)")
        yield Ledger(sql, redis, settings, uuid4())


def app_of(kind: str, runs: list[UUID], settings: Settings) -> Homing:
    """An app with one handler of that kind, which notes its runs."""
    app = Homing("test")
    queue = app.queue("mail")
    if kind == "once":

        @queue.handler("send", on=Paid, retry=FAST)
        async def send(event: Paid, tx: Transaction[AsyncSession]) -> None:
            runs.append(event.event_id)
            await tx.execute(ADD_POINTS, {"event_id": event.event_id})

    else:

        @queue.handler("send", on=Paid, retry=FAST, at_least_once=True)
        async def send_again(event: Paid) -> None:
            runs.append(event.event_id)

    return with_sessions(app, settings)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mark", [None, "done", "dead:7"])
async def test_a_done_delivery_is_not_run_again(
    settings: Settings, ledger: Ledger, kind: str, mark: str | None
) -> None:
    """Its job completes with the stored result, whatever Redis believed of it."""
    runs: list[UUID] = []
    await ledger.row("mail.send", "done", result='{"captured":7}')
    job_id = await ledger.job("mail.send", mark=mark)
    async with running(app_of(kind, runs, settings), quick(settings), relay=False):
        fields = await ledger.ended(job_id)
    assert json.loads(fields["returnvalue"]) == {"captured": 7}
    assert fields["homing"] == "done"
    assert "failedReason" not in fields
    assert runs == []
    assert await ledger.letters() == []


async def test_a_done_delivery_whose_data_cannot_be_read_is_done_all_the_same(
    settings: Settings, ledger: Ledger
) -> None:
    """What cannot be read is buried only where the row is pending: here the row says done, and the job completes."""
    runs: list[UUID] = []
    await ledger.row("mail.send", "done", result='{"captured":7}')
    job_id = await ledger.job("mail.send", payload={"amount": "much"})
    async with running(app_of("once", runs, settings), quick(settings), relay=False):
        fields = await ledger.ended(job_id)
    assert json.loads(fields["returnvalue"]) == {"captured": 7}
    assert "failedReason" not in fields
    assert await ledger.letters() == []


@pytest.mark.parametrize("kind", KINDS)
async def test_a_dead_delivery_with_the_mark_of_its_open_letter_is_adopted(
    settings: Settings, ledger: Ledger, kind: str
) -> None:
    """A person retried the job in place: the row opens, the letter closes as retried, the handler runs."""
    runs: list[UUID] = []
    await ledger.row("mail.send", "dead")
    letter = await ledger.letter("mail.send")
    job_id = await ledger.job("mail.send", mark=f"dead:{letter}")
    async with running(app_of(kind, runs, settings), quick(settings), relay=False):
        fields = await ledger.ended(job_id)
    assert fields["homing"] == "done"
    assert runs == [ledger.event_id]
    assert await ledger.outcome() == ("done", 1)
    assert await ledger.letters() == [("failed", "retried")]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mark", ["none", "older"])
async def test_a_dead_delivery_without_that_mark_fails_again(
    settings: Settings, ledger: Ledger, kind: str, mark: str
) -> None:
    """The bury happened and the finish did not: nothing runs, and the job now carries the open letter's mark."""
    runs: list[UUID] = []
    await ledger.row("mail.send", "dead")
    older = await ledger.letter("mail.send", closed=True)
    letter = await ledger.letter("mail.send")
    job_id = await ledger.job("mail.send", mark=f"dead:{older}" if mark == "older" else None)
    async with running(app_of(kind, runs, settings), quick(settings), relay=False):
        fields = await ledger.ended(job_id)
    assert fields["failedReason"] == "buried by an earlier run"
    assert fields["homing"] == f"dead:{letter}"
    assert runs == []
    assert await ledger.outcome() == ("dead", 1)
    assert await ledger.letters() == [("failed", "redriven"), ("failed", None)]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_cancelled_delivery_completes_without_a_run(settings: Settings, ledger: Ledger, kind: str) -> None:
    """What an operator cancelled is over: no run, no failure, and no mark that says done."""
    runs: list[UUID] = []
    await ledger.row("mail.send", "cancelled")
    job_id = await ledger.job("mail.send")
    async with running(app_of(kind, runs, settings), quick(settings), relay=False):
        fields = await ledger.ended(job_id)
    assert "failedReason" not in fields
    assert "homing" not in fields
    assert runs == []
    assert await ledger.outcome() == ("cancelled", 1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("outcome", [None, "dead"])
async def test_a_redriven_delivery_supersedes_its_old_job(
    settings: Settings, ledger: Ledger, kind: str, outcome: str | None
) -> None:
    """The job of generation 1 completes without a run; the row of generation 2 is not touched by it."""
    runs: list[UUID] = []
    await ledger.row("mail.send", outcome, generation=2)
    old = await ledger.letter("mail.send", closed=True)
    job_id = await ledger.job("mail.send", mark=f"dead:{old}")
    async with running(app_of(kind, runs, settings), quick(settings), relay=False):
        fields = await ledger.ended(job_id)
    assert "failedReason" not in fields
    assert runs == []
    assert await ledger.outcome() == (outcome, 2)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("row", ["missing", "older"])
async def test_an_unknown_delivery_never_runs(settings: Settings, ledger: Ledger, kind: str, row: str) -> None:
    """Without its row a delivery is not a first time: it fails with the reason, and leaves no row behind."""
    runs: list[UUID] = []
    if row == "older":
        await ledger.row("mail.send", None, generation=1)
    job_id = await ledger.job("mail.send", generation=2)
    async with running(app_of(kind, runs, settings), quick(settings), relay=False):
        fields = await ledger.ended(job_id)
    assert fields["failedReason"].startswith("unknown delivery: the ledger does not have it")
    assert runs == []
    assert await ledger.letters() == []
    assert await ledger.sql.fetchval("SELECT count(*) FROM homing.deliveries WHERE outcome IS NOT NULL") == 0


@pytest.mark.parametrize("kind", KINDS)
async def test_an_expired_delivery_is_buried_as_expired(settings: Settings, ledger: Ledger, kind: str) -> None:
    """After its deadline a delivery starts no run; the letter says when it was opened."""
    runs: list[UUID] = []
    await ledger.row("mail.send", None, age_days=15)
    job_id = await ledger.job("mail.send", age_days=15)
    async with running(app_of(kind, runs, settings), quick(settings), relay=False):
        fields = await ledger.ended(job_id)
    assert fields["failedReason"].startswith("DeadlineExceeded: opened at ")
    assert fields["homing"].startswith("dead:")
    assert runs == []
    assert await ledger.outcome() == ("dead", 1)
    assert await ledger.letters() == [("expired", None)]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_delivery_of_a_former_name_settles_under_it(settings: Settings, ledger: Ledger, kind: str) -> None:
    """The row's name counts, not the handler's: nothing is left open after a rename."""
    runs: list[UUID] = []
    await ledger.row("mail.former", None)
    job_id = await ledger.job("mail.former")
    async with running(app_of(kind, runs, settings), quick(settings), relay=False):
        fields = await ledger.ended(job_id)
    assert fields["homing"] == "done"
    assert runs == [ledger.event_id]
    rows = await ledger.sql.fetch("SELECT consumer, outcome FROM homing.deliveries")
    assert [tuple(row) for row in rows] == [("mail.former", "done")]


async def test_two_jobs_of_one_delivery_at_once_have_one_effect(settings: Settings, ledger: Ledger) -> None:
    """The second of two workers waits for the first one's row, and completes with its result, without an effect."""
    entered: list[UUID] = []
    may_end = asyncio.Event()
    apps = [Homing("test"), Homing("test")]
    for app in apps:

        @app.queue("mail").handler("send", on=Paid)
        async def send(event: Paid, tx: Transaction[AsyncSession]) -> str:
            entered.append(event.event_id)
            await tx.execute(ADD_POINTS, {"event_id": event.event_id})
            await may_end.wait()
            return "by the first"

    await ledger.row("mail.send", None)
    other = settings.model_copy(update={"prefix": f"{settings.prefix}:other".replace(":", "-")})
    ledgers = [ledger, Ledger(ledger.sql, ledger.redis, other, ledger.event_id)]
    job_ids = [await one.job("mail.send") for one in ledgers]
    try:
        async with (
            running(with_sessions(apps[0], settings), quick(settings), relay=False),
            running(with_sessions(apps[1], other), quick(other), relay=False),
        ):

            async def second_waits() -> bool:
                waiting = await ledger.sql.fetchval(
                    "SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype IN ('transactionid', 'tuple')"
                )
                return bool(entered) and waiting == 1

            await until(second_waits, what="the second run waits for the row")
            may_end.set()
            ends = [await one.ended(job_id) for one, job_id in zip(ledgers, job_ids, strict=True)]
        assert [json.loads(end["returnvalue"]) for end in ends] == ["by the first"] * 2
        assert [end["homing"] for end in ends] == ["done"] * 2
        assert len(entered) == 1
        assert await ledger.sql.fetchval("SELECT count(*) FROM points") == 1
    finally:
        async for key in ledger.redis.scan_iter(match=f"{other.prefix}:*"):
            await ledger.redis.unlink(key)
