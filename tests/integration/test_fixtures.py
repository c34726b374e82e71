"""The servers of the test session: what a test may rely on."""

import asyncpg
from redis import Redis

from homing.config.settings import Settings
from homing.schema import check_schema


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
