"""The servers of the test session: what a test may rely on."""

import asyncpg
import psycopg
from redis import Redis

from homing.config.settings import Settings
from homing.schema import check_schema
from tests.databases import Databases


async def test_a_test_has_a_ledger_of_its_own(settings: Settings) -> None:
    """The database is migrated, and its ledger's id is not that of the template other tests were copied from."""
    connection = await asyncpg.connect(settings.asyncpg_dsn)
    try:
        own = await check_schema(connection, engine=settings.engine)
        template = await asyncpg.connect(settings.asyncpg_dsn, database="homing_template")
        try:
            assert own.ledger_id != (await check_schema(template, engine="redis")).ledger_id
        finally:
            await template.close()
    finally:
        await connection.close()


def test_a_test_has_a_prefix_of_its_own(redis_url: str, redis_prefix: str) -> None:
    """Nothing lies under the prefix yet, and the server keeps what it is given."""
    with Redis.from_url(redis_url) as client:
        assert list(client.scan_iter(match=f"{redis_prefix}:*")) == []
        client.set(f"{redis_prefix}:seen", "yes")
        assert client.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}


def test_what_a_test_leaves_in_its_database_is_gone_for_the_next_one(
    databases: Databases,
) -> None:
    """Rows, tables and numbers begin anew with another ledger id; a database whose own schema was changed is never seen again."""
    ids, names = [], []
    for change in ("", "ALTER TABLE homing.queues ADD COLUMN surplus text", ""):
        with databases.lend() as url, psycopg.connect(url, autocommit=True) as connection:
            names.append(connection.info.dbname)
            (row,) = connection.execute("SELECT ledger_id FROM homing.ledger").fetchall()
            ids.append(row[0])
            assert connection.execute("SELECT count(*) FROM homing.workers").fetchone() == (0,)
            assert connection.execute("SELECT to_regclass('left_behind')").fetchone() == (None,)
            act = "INSERT INTO homing.operator_actions (actor, action, subject, affected) VALUES ('i', 'test', '{}', 0) RETURNING id"
            assert connection.execute(act).fetchone() == (1,)
            connection.execute("CREATE TABLE left_behind (number integer)")
            if change:
                connection.execute(change)
    assert len(set(ids)) == 3
    assert names[0] == names[1] != names[2]
