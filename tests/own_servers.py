"""Servers that a test may stop, flush and kill: never the ones that other tests share."""

import asyncio
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import asyncpg
import psycopg
from redis import Redis

from homing.embedded import EmbeddedPostgres, EmbeddedValkey, fast_test_settings, stop_with_parent
from homing.schema import migrate


@contextmanager
def own_valkey(home: Path) -> Iterator[EmbeddedValkey]:
    """A Valkey that ends with the block or with the test session."""
    with EmbeddedValkey(home) as server:
        stop_with_parent(server)
        yield server


@contextmanager
def own_postgres(home: Path) -> Iterator[EmbeddedPostgres]:
    """A PostgreSQL that ends with the block or with the test session."""
    with EmbeddedPostgres(home, settings=fast_test_settings) as server:
        stop_with_parent(server)
        yield server


def ready_valkey(server: EmbeddedValkey) -> EmbeddedValkey:
    """The server, running and empty, whatever the test before did to it."""
    server.start()
    with Redis.from_url(server.url()) as client:
        client.replicaof("NO", "ONE")
        client.config_set("maxmemory", "0")
        client.flushall()
    return server


def fresh_ledger(server: EmbeddedPostgres) -> str:
    """The URL of a new, migrated database."""
    server.start()
    name = f"t_{secrets.token_hex(6)}"
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:  # leaves pytest-asyncio's own loop alone
        runner.run(_migrate(server.url(name)))
    return server.url(name)


def emptied(url: str) -> str:
    """The URL of a ledger that tests share, without anything that the test before left in it."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "TRUNCATE homing.outbox_events, homing.deliveries, homing.dead_letters, homing.subscriptions, homing.queues,"
            " homing.queue_epochs, homing.operator_actions, homing.workers"
        )
    return url


async def _migrate(url: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        await migrate(connection, engine="redis")
    finally:
        await connection.close()
