"""What must be refused at start, on real servers: each with the value, the remedy and its exit code."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import Session

from homing import Event, Homing, Provider, Transaction
from homing.config.settings import Settings, load_settings
from homing.config.urls import sqlalchemy_asyncpg_url
from homing.embedded import EmbeddedPostgres, EmbeddedValkey
from homing.errors import ConfigurationError, RegistrationError, SchemaError, ServerUnavailable
from homing.processes.heartbeat import Role
from homing.processes.opening import open_process
from homing.worker import Worker
from tests.waiting import until


class Paid(Event, topic="bad.paid", unrouted=True):
    amount: int = 1


class Gateway:
    """A resource that nobody provides."""


def plain_app() -> Homing:
    """An app with nothing wrong in it."""
    app = Homing("test")

    @app.queue("mail").handler("send", on=Paid, at_least_once=True)
    async def send(event: Paid) -> None:
        """Send."""

    return app


def app_with_transaction(*factories: async_sessionmaker[AsyncSession]) -> Homing:
    """An app whose handler takes a session, and whose lifespan provides `factories`."""
    app = Homing("test")

    @app.queue("loyalty").handler("award", on=Paid)
    async def award(event: Paid, tx: Transaction[AsyncSession]) -> None:
        """Award."""

    @app.lifespan
    async def resources(provide: Provider) -> AsyncIterator[None]:
        for factory in factories:
            provide(factory)
        yield

    return app


async def refused_at_start(app: Homing, settings: Settings, role: Role = "worker") -> Exception:
    """Start as the process would; the error that ended it, after which nothing is left open."""
    try:
        async with open_process(app, settings, role) as connections:
            provider = Provider()
            if app.open_resources is None:
                await start_and_stop(
                    Worker(app, settings, ledger=connections.ledger, engine=connections.engine, provider=provider)
                )
            else:
                async with app.open_resources(provider):
                    await start_and_stop(
                        Worker(app, settings, ledger=connections.ledger, engine=connections.engine, provider=provider)
                    )
    except Exception as error:  # noqa: BLE001 - what is tested
        return error
    raise AssertionError("it started")


async def start_and_stop(worker: Worker) -> None:
    """A worker that starts is stopped again."""
    await worker.start()
    await worker.stop(5)


def with_password(url: str, password: str) -> str:
    """The same address with another password."""
    parts = urlsplit(url)
    return parts._replace(netloc=f"{parts.username or ''}:{password}@{parts.hostname}:{parts.port}").geturl()


# ── Servers ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("role", ["worker", "relay"])
async def test_a_postgres_that_is_not_there_is_named(settings: Settings, unused_tcp_port: int, role: Role) -> None:
    """The address that does not answer is in the message, and the password is not."""
    url = f"postgresql://shop:s3cret@127.0.0.1:{unused_tcp_port}/shop"
    error = await refused_at_start(plain_app(), settings.model_copy(update={"database_url": url}), role)
    assert type(error) is ServerUnavailable
    assert str(unused_tcp_port) in str(error)
    assert "s3cret" not in str(error)


@pytest.mark.parametrize("role", ["worker", "relay"])
async def test_a_redis_that_is_not_there_is_named(settings: Settings, unused_tcp_port: int, role: Role) -> None:
    """The same for the engine, and the ledger's connections are closed again."""
    url = f"redis://:s3cret@127.0.0.1:{unused_tcp_port}/0"
    async with asyncio.timeout(60):
        error = await refused_at_start(plain_app(), settings.model_copy(update={"redis_url": url}), role)
    assert type(error) is ServerUnavailable
    assert str(unused_tcp_port) in str(error)
    assert "s3cret" not in str(error)

    async def closed() -> bool:
        return await _our_connections(settings) == 0

    await until(closed, what="the ledger's connections are closed")


async def _our_connections(settings: Settings) -> int:
    connection = await asyncpg.connect(settings.asyncpg_dsn)
    try:
        return (
            await connection.fetchval(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'homing%'"
            )
            or 0
        )
    finally:
        await connection.close()


async def test_a_wrong_password_of_postgres_is_a_wrong_setting(settings: Settings) -> None:
    """Refused credentials are not a server that is away: no waiting makes them right."""
    wrong = with_password(settings.asyncpg_dsn, "s3cret")
    error = await refused_at_start(plain_app(), settings.model_copy(update={"database_url": wrong}))
    assert type(error) is ConfigurationError
    assert "DATABASE_URL" in str(error)
    assert "password authentication failed" in str(error)
    assert "s3cret" not in str(error)


async def test_a_missing_database_is_a_wrong_setting(settings: Settings) -> None:
    """A database that does not exist is named."""
    url = settings.asyncpg_dsn.rpartition("/")[0] + "/no_such_database"
    error = await refused_at_start(plain_app(), settings.model_copy(update={"database_url": url}))
    assert type(error) is ConfigurationError
    assert '"no_such_database" does not exist' in str(error)


async def test_a_wrong_password_of_redis_is_a_wrong_setting(settings: Settings, valkey_server: EmbeddedValkey) -> None:
    """The same for the engine, with the address and without the password."""
    wrong = with_password(valkey_server.url(), "s3cret")
    error = await refused_at_start(plain_app(), settings.model_copy(update={"redis_url": wrong}))
    assert type(error) is ConfigurationError
    assert "Redis refuses the user or password of the URL: correct them" in str(error)
    assert "s3cret" not in str(error)


async def test_a_port_that_speaks_another_language_is_no_redis(
    settings: Settings, postgres_server: EmbeddedPostgres
) -> None:
    """A URL that leads to PostgreSQL is told as such a thing, within a bounded time."""
    url = f"redis://127.0.0.1:{postgres_server.port}/0"
    async with asyncio.timeout(60):
        error = await refused_at_start(plain_app(), settings.model_copy(update={"redis_url": url}))
    assert isinstance(error, ServerUnavailable | ConfigurationError)
    assert str(postgres_server.port) in str(error)


async def test_a_missing_migration_names_the_command(settings: Settings, empty_database_url: str) -> None:
    """A database without tables is told with the command that makes them."""
    error = await refused_at_start(plain_app(), settings.model_copy(update={"database_url": empty_database_url}))
    assert type(error) is SchemaError
    assert "run `homing migrate`" in str(error)
    assert urlsplit(empty_database_url).path.strip("/") in str(error)


async def test_a_ledger_of_another_engine_is_refused(settings: Settings) -> None:
    """Two processes that disagree about the engine would never meet: both values are named, and the remedy."""
    connection = await asyncpg.connect(settings.asyncpg_dsn)
    try:
        await connection.execute("UPDATE homing.ledger SET engine = 'postgres'")
    finally:
        await connection.close()
    error = await refused_at_start(plain_app(), settings)
    assert type(error) is SchemaError
    assert "'redis'" in str(error)
    assert "'postgres'" in str(error)
    assert "REDIS_URL and HOMING_ENGINE" in str(error)


# ── Code ────────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_resource_that_nobody_provides_is_named(settings: Settings) -> None:
    """Handler, place, parameter, type and what is on offer: before the first job, not in it."""
    app = Homing("test")

    @app.queue("pay").handler("capture", on=Paid, at_least_once=True)
    async def capture(event: Paid, gateway: Gateway) -> None:
        """Capture."""

    error = await refused_at_start(app, settings)
    assert type(error) is RegistrationError
    assert f"({__file__}:" in str(error)
    assert "parameter 'gateway' wants Gateway; the lifespan provides nothing" in str(error)


async def test_a_transaction_that_nobody_provides_is_named(settings: Settings) -> None:
    """A handler that takes a session needs its factory."""
    error = await refused_at_start(app_with_transaction(), settings)
    assert type(error) is RegistrationError
    assert (
        "takes Transaction[AsyncSession] and is async def: provide a session factory of that kind in the lifespan"
        in str(error)
    )
    assert "it provides nothing" in str(error)


async def test_a_transaction_of_another_kind_is_named(settings: Settings) -> None:
    """A type that no bridge opens is refused in the same words, with what is on offer."""
    app = Homing("test")

    @app.queue("loyalty").handler("award", on=Paid)
    async def award(event: Paid, tx: Transaction[Gateway]) -> None:
        """Award."""

    error = await refused_at_start(app, settings)
    assert type(error) is RegistrationError
    assert "takes Transaction[Gateway]" in str(error)


@pytest.fixture
async def engines() -> AsyncIterator[list[AsyncEngine]]:
    """Engines that are disposed of at the end."""
    made: list[AsyncEngine] = []
    yield made
    for engine in made:
        await engine.dispose()


async def test_sessions_of_another_database_are_refused(
    settings: Settings, empty_database_url: str, engines: list[AsyncEngine]
) -> None:
    """Effect and delivery could not commit together: a database without a ledger is told as such."""
    engines.append(create_async_engine(sqlalchemy_asyncpg_url(empty_database_url)))
    error = await refused_at_start(app_with_transaction(async_sessionmaker(engines[0])), settings)
    assert type(error) is SchemaError
    assert "leads to a database without this ledger: point its engine at DATABASE_URL" in str(error)


async def test_sessions_of_another_ledger_are_refused(
    settings: Settings, empty_database_url: str, engines: list[AsyncEngine]
) -> None:
    """A database with a ledger of its own is refused too, and both ledgers are named."""
    connection = await asyncpg.connect(empty_database_url)
    try:
        await connection.execute("CREATE SCHEMA homing")
        await connection.execute("CREATE TABLE homing.ledger (ledger_id uuid DEFAULT gen_random_uuid(), engine text)")
        other = await connection.fetchval("INSERT INTO homing.ledger (engine) VALUES ('redis') RETURNING ledger_id")
    finally:
        await connection.close()
    engines.append(create_async_engine(sqlalchemy_asyncpg_url(empty_database_url)))
    error = await refused_at_start(app_with_transaction(async_sessionmaker(engines[0])), settings)
    assert type(error) is SchemaError
    assert f"leads to the ledger {other}" in str(error)
    assert "give both the same database" in str(error)


async def test_sessions_of_an_engine_in_autocommit_are_refused(settings: Settings, engines: list[AsyncEngine]) -> None:
    """The usual spelling of the same."""
    engines.append(create_async_engine(settings.sqlalchemy_url, isolation_level="AUTOCOMMIT"))
    error = await refused_at_start(app_with_transaction(async_sessionmaker(engines[0])), settings)
    assert type(error) is RegistrationError
    assert "commits every statement by itself" in str(error)


async def test_unreachable_database_of_the_sessions_is_named(settings: Settings, engines: list[AsyncEngine]) -> None:
    """A session engine that leads nowhere is an unavailable server, told at start."""
    engines.append(create_async_engine("postgresql+asyncpg://nobody@127.0.0.1:9/none"))
    error = await refused_at_start(app_with_transaction(async_sessionmaker(engines[0])), settings)
    assert type(error) is ServerUnavailable
    assert "Transaction[AsyncSession] does not answer" in str(error)


async def test_sessions_in_autocommit_are_refused(settings: Settings, engines: list[AsyncEngine]) -> None:
    """In AUTOCOMMIT nothing would commit together."""
    engines.append(create_async_engine(settings.sqlalchemy_url))
    autocommit = engines[0].execution_options(isolation_level="AUTOCOMMIT")
    error = await refused_at_start(app_with_transaction(async_sessionmaker(autocommit)), settings)
    assert type(error) is RegistrationError
    assert "AUTOCOMMIT" in str(error)


async def test_sessions_without_an_engine_are_refused(settings: Settings) -> None:
    """A factory that is bound to nothing, or to a connection, cannot open transactions of ours."""
    error = await refused_at_start(app_with_transaction(async_sessionmaker()), settings)
    assert type(error) is RegistrationError
    assert "is bound to None: bind it to one AsyncEngine" in str(error)


async def test_a_plain_session_says_what_it_wants(settings: Settings) -> None:
    """The session of threads is not built yet: it is refused, and nothing pretends to fit."""
    app = Homing("test")

    @app.queue("loyalty").handler("award", on=Paid)
    async def award(event: Paid, tx: Transaction[Session]) -> None:
        """Award."""

    error = await refused_at_start(app, settings)
    assert type(error) is RegistrationError
    assert "Transaction[Session]" in str(error)


# ── As programs ─────────────────────────────────────────────────────────────────────────────────────────────────────

APP = """
from homing import Event, Homing

class Placed(Event, topic="placed"):
    number: int

app = Homing("shop", include=["jobs"])

@app.queue("orders").handler("confirm", on=Placed, at_least_once=True)
async def confirm(event: Placed{parameters}) -> None: ...
"""

UNROUTED = '\nclass Lost(Event, topic="lost"):\n    number: int\n'


@dataclass(frozen=True, slots=True)
class Ended:
    """How a program ended."""

    code: int
    message: str


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with an app that is in order."""
    (tmp_path / "jobs.py").write_text(APP.format(parameters=""))
    return tmp_path


def end_of(folder: Path, *arguments: str, settings: Settings | None = None, **variables: str) -> Ended:
    """Run the command to its end; what it wrote has no traceback."""
    environment = {"PATH": os.environ["PATH"]}
    if settings is not None:
        environment |= {"DATABASE_URL": settings.asyncpg_dsn, "REDIS_URL": settings.redis_dsn}
    command = [sys.executable, "-m", "homing", "--app", "jobs:app", *arguments]
    done = subprocess.run(
        command, cwd=folder, env=environment | variables, capture_output=True, text=True, timeout=90, check=False
    )
    assert "Traceback" not in done.stderr
    return Ended(done.returncode, done.stderr)


@pytest.mark.parametrize(("verb", "code"), [("worker", 3), ("relay", 3), ("check", 1)])
def test_an_event_without_a_route_is_found_by_every_verb(
    folder: Path, settings: Settings, verb: str, code: int
) -> None:
    """Worker and relay refuse to start, and `homing check` finds it: with the class and both remedies."""
    (folder / "jobs.py").write_text(APP.format(parameters="") + UNROUTED)
    ended = end_of(folder, verb, settings=settings)
    assert ended.code == code
    assert (
        "nobody consumes 'lost' (jobs.Lost): register a handler on it, or declare it with unrouted=True"
        in ended.message
    )


@pytest.mark.parametrize("verb", ["worker", "relay"])
def test_a_declaration_that_is_refused_ends_the_start(folder: Path, settings: Settings, verb: str) -> None:
    """An error at import is a message with its place, not a traceback."""
    (folder / "jobs.py").write_text(APP.format(parameters=", tx"))
    ended = end_of(folder, verb, settings=settings)
    assert ended.code == 3
    assert "jobs.py:" in ended.message
    assert "parameter 'tx' has no type" in ended.message


def test_a_resource_that_nobody_provides_ends_the_worker(folder: Path, settings: Settings) -> None:
    """The worker ends with 3 before it claims anything."""
    (folder / "jobs.py").write_text(APP.format(parameters=", mail: int"))
    ended = end_of(folder, "worker", settings=settings)
    assert ended.code == 3
    assert "parameter 'mail' wants int; the lifespan provides nothing" in ended.message


@pytest.mark.parametrize("verb", ["worker", "relay"])
def test_wrong_passwords_end_with_3(folder: Path, settings: Settings, valkey_server: EmbeddedValkey, verb: str) -> None:
    """Credentials are settings: a script need not try again."""
    for variables in (
        {"DATABASE_URL": with_password(settings.asyncpg_dsn, "s3cret")},
        {"REDIS_URL": with_password(valkey_server.url(), "s3cret")},
    ):
        ended = end_of(folder, verb, settings=settings, **variables)
        assert ended.code == 3
        assert "s3cret" not in ended.message


def test_a_postgres_that_is_not_there_ends_with_4(folder: Path, settings: Settings, unused_tcp_port: int) -> None:
    """A server that is away may come back: the code says so."""
    ended = end_of(folder, "relay", settings=settings, DATABASE_URL=f"postgresql://127.0.0.1:{unused_tcp_port}/shop")
    assert ended.code == 4
    assert str(unused_tcp_port) in ended.message


def test_another_engine_ends_with_3(folder: Path, settings: Settings) -> None:
    """An engine that is not built is refused before any server is asked."""
    ended = end_of(folder, "worker", settings=settings, HOMING_ENGINE="postgres")
    assert ended.code == 3
    assert "the engine 'postgres' is declared but not built yet" in ended.message


# ── Settings ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("variables", "text"),
    [
        ({"HOMING_LAESE": "30s"}, "unknown variable HOMING_LAESE: did you mean HOMING_LEASE?"),
        ({"DATABASE_URL": "mysql://db/shop"}, "scheme 'mysql' is none of postgresql"),
        ({"DATABASE_URL": "db/shop"}, "it is no URL: write it as postgresql://"),
        ({"REDIS_URL": "http://cache:6379"}, "a Redis URL cannot start with 'http'"),
        ({"REDIS_URL": "redis://cache:6379/first"}, "the database of a Redis URL is a number"),
        ({"HOMING_ENGINE": "kafka"}, "kafka"),
        ({"HOMING_LEASE": "30"}, "30"),
        ({"HOMING_LEASE": "9" * 20 + "d"}, "longer than any date"),
        ({"HOMING_LEASE": "10s", "HOMING_BEAT": "5s"}, "a lease must outlast 3 beats"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_wrong_variable_is_refused_by_name(tmp_path: Path, variables: dict[str, str], text: str) -> None:
    """A setting that cannot work is told with its variable, its value and the remedy, before anything runs."""
    with pytest.raises(ConfigurationError) as error:
        load_settings(environ=variables, directory=tmp_path)
    assert text in str(error.value)
    assert next(iter(variables)) in str(error.value)
