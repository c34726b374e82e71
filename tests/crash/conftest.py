"""Processes of a test's own, and the servers that they may lose."""

from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from pathlib import Path

import asyncpg
import pytest

from homing import Event, record
from homing.embedded import EmbeddedPostgres, EmbeddedValkey
from tests.crash.children import WHOLE_APP, Children, children
from tests.crash.least_app import TABLES
from tests.crash.shop_processes import IN_A_HURRY, Workers, environment_of
from tests.integration.shop.world import Partners, World
from tests.own_servers import fresh_ledger, own_postgres, own_valkey, ready_valkey
from tests.waiting import until


class Scene:
    """What a test sees and does besides starting and ending processes."""

    def __init__(self, sql: asyncpg.Connection) -> None:
        self.sql = sql

    async def record(self, *events: Event) -> None:
        """Record events in one committed transaction."""
        async with self.sql.transaction():
            await record(self.sql, *events)

    async def open(self, gate: str) -> None:
        """Let the handlers behind this gate go on."""
        await self.sql.execute("INSERT INTO gates VALUES ($1)", gate)

    async def count(self, table: str) -> int:
        """How many rows a table has."""
        number: int = await self.sql.fetchval(f"SELECT count(*) FROM {table}")  # noqa: S608 - a table of the test app
        return number

    async def reached(self, table: str, number: int, timeout_seconds: float = 20) -> None:
        """Wait until a table has so many rows."""

        async def enough() -> bool:
            return await self.count(table) >= number

        await until(enough, timeout_seconds, f"{number} rows in {table}")

    async def attempts(self) -> list[int]:
        """The attempt number of every run, in order."""
        return [row["attempt"] for row in await self.sql.fetch("SELECT attempt FROM runs ORDER BY at")]

    async def outcomes(self) -> set[str | None]:
        """The outcomes that deliveries have."""
        return {row["outcome"] for row in await self.sql.fetch("SELECT DISTINCT outcome FROM homing.deliveries")}

    async def settled(self, timeout_seconds: float = 20) -> None:
        """Wait until every event is routed and every delivery is settled."""

        async def nothing_left() -> bool:
            return not await self.sql.fetchval(
                "SELECT (SELECT count(*) FROM homing.outbox_events WHERE published_at IS NULL)"
                " + (SELECT count(*) FROM homing.deliveries WHERE settled_at IS NULL)"
            )

        await until(nothing_left, timeout_seconds, "everything is settled")


@pytest.fixture
def processes(
    request: pytest.FixtureRequest, database_url: str, redis_url: str, redis_prefix: str, tmp_path: Path
) -> Iterator[Children]:
    """Processes on the shared servers, of the app that the module of the test names as `APP`."""
    app = getattr(request.module, "APP", WHOLE_APP)
    with children(database_url, redis_url, redis_prefix, tmp_path, app) as started:
        yield started


@pytest.fixture
async def scene(database_url: str) -> AsyncIterator[Scene]:
    """The test's view of this test's database, with the tables of the app."""
    connection = await asyncpg.connect(database_url)
    await connection.execute(TABLES)
    yield Scene(connection)
    await connection.close()


@pytest.fixture(scope="module")
def mortal_postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedPostgres]:
    """A PostgreSQL that the tests of a module may restart."""
    with own_postgres(tmp_path_factory.mktemp("mortal-postgres")) as server:
        yield server


@pytest.fixture
def mortal_database_url(mortal_postgres: EmbeddedPostgres) -> str:
    """A fresh ledger on it."""
    return fresh_ledger(mortal_postgres)


@pytest.fixture(scope="module")
def _mortal_valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedValkey]:
    with own_valkey(tmp_path_factory.mktemp("mortal-valkey")) as server:
        yield server


@pytest.fixture
def mortal_valkey(_mortal_valkey: EmbeddedValkey) -> EmbeddedValkey:
    """A Valkey that the test may flush and kill."""
    return ready_valkey(_mortal_valkey)


# ── The shop ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="session")
def _running_partners(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Partners]:
    with Partners.running(tmp_path_factory.mktemp("partners")) as running:
        yield running


@pytest.fixture
def partners(_running_partners: Partners) -> Partners:
    """Gateway, carrier and mailbox as if just started."""
    _running_partners.reset()
    return _running_partners


@pytest.fixture
async def world(database_url: str, partners: Partners) -> AsyncIterator[World]:
    """A shop with one order in it."""
    async with World.open(partners.settings(database_url), partners) as world:
        yield world


@pytest.fixture
def workers(world: World, redis_url: str, redis_prefix: str, tmp_path: Path) -> Iterator[Workers]:
    """Workers of the shop."""
    more = {**IN_A_HURRY, "HOMING_APP": "shop.jobs:app", "REDIS_URL": redis_url, "HOMING_PREFIX": redis_prefix}
    with ExitStack() as stack:
        yield Workers(environment_of(world.settings, more), tmp_path / "worker.log", stack)
