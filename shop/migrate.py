"""Create the shop's tables: `python -m shop.migrate`. Safe to run again, and by several at once."""

import asyncio
import sys
from importlib.resources import files

import asyncpg

from homing.errors import ConfigurationError
from shop.config import load_database_settings

_LOCK = 0x53484F50  # "SHOP": one migration at a time


def schema_script() -> str:
    """The text of `shop/sql/schema.sql`."""
    return files("shop").joinpath("sql", "schema.sql").read_text(encoding="utf-8")


async def migrate(dsn: str) -> None:
    """Apply the schema in one transaction; `dsn` as libpq spells it (`postgresql://…`)."""
    connection = await asyncpg.connect(dsn, timeout=10, command_timeout=60)
    try:
        async with connection.transaction():
            await connection.execute("SELECT pg_advisory_xact_lock($1)", _LOCK)
            await connection.execute(schema_script())
    finally:
        await connection.close()


def main() -> None:
    """Run it for the database that the environment names; exit status 3 when it names none that works."""
    try:
        settings = load_database_settings()
    except ConfigurationError as error:
        sys.stderr.write(f"{error}\n")
        raise SystemExit(3) from error
    asyncio.run(migrate("postgresql://" + settings.database_url.partition("://")[2]))


if __name__ == "__main__":
    main()
