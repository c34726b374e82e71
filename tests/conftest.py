"""Real servers for tests: one of each for a session, one database and one key prefix for a test."""

import asyncio
import os
import secrets
import signal
import sys
from collections.abc import Callable, Generator, Iterator, Mapping
from pathlib import Path

import asyncpg
import hypothesis
import psycopg
import pytest
import uvloop
from psycopg import sql
from redis import Redis

from homing.config.settings import Settings
from homing.embedded import EmbeddedPostgres, EmbeddedValkey, fast_test_settings, stop_with_parent
from homing.schema import migrate
from tests.databases import Databases, copy, drop

_HERE = Path(__file__).parent
_LONGEST = (
    "crash/test_shop_soak.py",
    "crash/test_supervisor.py",
    "crash/test_shop_demo.py",
    "crash/test_shop_worker_killed.py",
    "crash/test_worker_cut_off.py",
    "crash/test_poison.py",
    "integration/test_children.py",
    "integration/test_children_suspects.py",
    "crash/test_worker_signals.py",
)
_FOLDERS = ("crash", "browser", "interop", "integration", "docs", "property", "contract")
_TEMPLATE = "homing_template"
_ON_BOTH_LOOPS = (
    "contract/test_redis_faults.py",
    "contract/test_redis_tls.py",
    "contract/test_redis_wire.py",
    "unit/test_watchdog.py",
)
_ON_UVLOOP = "integration/test_uvloop.py"

os.environ["PYTHONDONTWRITEBYTECODE"] = ""  # each process that tests start would compile every module again
sys.dont_write_bytecode = False
# Ignored in the background of a shell, and what tests start would not hear Ctrl-C either.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Write what is no valid Unicode as its number: tests log hostile text, and reports travel between processes."""
    report = yield
    report.sections = [(name, text.encode("utf-8", "backslashreplace").decode()) for name, text in report.sections]
    return report


# A shell ignores SIGINT for what it starts in the background, and a process hands that down to its children; tests that press Ctrl-C mean it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# An example may take as long as a busy machine lets it.
hypothesis.settings.register_profile("homing", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("homing")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes longest comes first, so that the last of several processes ends soon after the others."""
    items.sort(key=lambda item: _turn(item.path.relative_to(_HERE)))


def _turn(path: Path) -> tuple[int, int]:
    """The place of a file in the order: the longest by name, then by folder."""
    name = str(path)
    long = _LONGEST.index(name) if name in _LONGEST else len(_LONGEST)
    folder = _FOLDERS.index(path.parts[0]) if path.parts[0] in _FOLDERS else len(_FOLDERS)
    return long, folder


def pytest_asyncio_loop_factories(item: pytest.Item) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """The event loops that a test runs on, one after the other: asyncio's own for most, or uvloop alone with `EVENT_LOOP=uvloop` around pytest."""
    file = str(item.path.relative_to(_HERE))
    if file == _ON_UVLOOP or os.environ.get("EVENT_LOOP") == "uvloop":
        return {"uvloop": uvloop.new_event_loop}
    if file in _ON_BOTH_LOOPS:
        return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
    return {"asyncio": asyncio.new_event_loop}


@pytest.fixture(autouse=True)
def _no_settings_of_the_developer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the variables of whoever runs the tests: no test reaches a server that it did not start."""
    for name in list(os.environ):
        if name in ("DATABASE_URL", "REDIS_URL") or (name.startswith("HOMING_") and "EMBEDDED" not in name):
            monkeypatch.delenv(name)


@pytest.fixture(scope="session")
def postgres_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedPostgres]:
    """The PostgreSQL of this test session. A test that stops or kills a server starts its own."""
    server = EmbeddedPostgres(tmp_path_factory.mktemp("postgres"), settings=fast_test_settings)
    with server:
        stop_with_parent(server)
        yield server


@pytest.fixture(scope="session")
def valkey_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedValkey]:
    """The Valkey of this test session. A test that flushes, stops or kills a server starts its own."""
    server = EmbeddedValkey(tmp_path_factory.mktemp("valkey"))
    with server:
        stop_with_parent(server)
        yield server


@pytest.fixture(scope="session")
def _admin(postgres_server: EmbeddedPostgres) -> Iterator[psycopg.Connection]:
    """The connection that makes and drops databases."""
    with psycopg.connect(postgres_server.url(), autocommit=True) as connection:
        yield connection


@pytest.fixture(scope="session")
def _template(postgres_server: EmbeddedPostgres, _admin: psycopg.Connection) -> str:
    """A migrated database that others are copied from."""
    _admin.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(_TEMPLATE)))
    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:  # leaves pytest-asyncio's own loop alone
        runner.run(_migrate(postgres_server.url(_TEMPLATE)))
    return _TEMPLATE


@pytest.fixture(scope="session")
def databases(postgres_server: EmbeddedPostgres, _admin: psycopg.Connection, _template: str) -> Databases:
    """Lends databases."""
    return Databases(postgres_server, _admin, _template)


@pytest.fixture
def database_url(databases: Databases) -> Iterator[str]:
    """A database that is this test's own meanwhile, as if just migrated for the redis engine, with a ledger id of its own."""
    with databases.lend() as url:
        yield url


@pytest.fixture
def empty_database_url(postgres_server: EmbeddedPostgres, _admin: psycopg.Connection) -> Iterator[str]:
    """A database of this test's own, without Homing's tables; dropped afterwards."""
    name = copy(_admin, "template1")
    yield postgres_server.url(name)
    drop(_admin, name)


@pytest.fixture
def redis_url(valkey_server: EmbeddedValkey) -> str:
    """The session's Valkey, shared by all tests: keep to `redis_prefix` in it."""
    return valkey_server.url()


@pytest.fixture
def redis_prefix(redis_url: str) -> Iterator[str]:
    """A key prefix of this test's own; every key under it is deleted afterwards."""
    prefix = f"t{secrets.token_hex(6)}"
    yield prefix
    with Redis.from_url(redis_url) as client:
        for key in client.scan_iter(match=f"{prefix}:*", count=1000):
            client.unlink(key)


@pytest.fixture
def settings(database_url: str, redis_url: str, redis_prefix: str) -> Settings:
    """The settings of a process that works on this test's database and prefix."""
    return Settings(database_url=database_url, redis_url=redis_url, prefix=redis_prefix)


async def _migrate(url: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        await migrate(connection, engine="redis")
    finally:
        await connection.close()
