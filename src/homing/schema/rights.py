"""What the role of a running application may do: everything with the rows, nothing with the tables."""

import asyncpg

from homing.errors import ConfigurationError
from homing.schema.catalog import split

# A role is a name, which no driver can send as a parameter: this is the one text that a name is put into, quoted.
_GRANTS = """
GRANT USAGE ON SCHEMA homing TO {role};
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA homing TO {role};
GRANT USAGE ON ALL SEQUENCES IN SCHEMA homing TO {role};
REVOKE INSERT, UPDATE, DELETE ON homing.migrations, homing.ledger FROM {role};
ALTER DEFAULT PRIVILEGES IN SCHEMA homing GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO {role};
ALTER DEFAULT PRIVILEGES IN SCHEMA homing GRANT USAGE ON SEQUENCES TO {role};
"""


def grants(role: str) -> str:
    """The statements that let `role` run workers, relays and `record`; later migrations grant by themselves."""
    if not role or "\0" in role:
        raise ConfigurationError(
            f"--grant-to {role!r} names no role: give the name of the role that the application uses"
        )
    return _GRANTS.strip().format(role='"' + role.replace('"', '""') + '"') + "\n"


async def grant(connection: asyncpg.Connection, role: str) -> None:
    """Run `grants(role)` in one transaction; a role that does not exist is a `ConfigurationError`."""
    try:
        async with connection.transaction():
            for statement in split(grants(role)):
                await connection.execute(statement)
    except asyncpg.UndefinedObjectError as error:
        raise ConfigurationError(
            f"--grant-to {role}: {error}; create it first, as in CREATE ROLE {role} LOGIN"
        ) from error
