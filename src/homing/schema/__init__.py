"""The tables in PostgreSQL: numbered migrations, and the statements that other migration tools can run."""

from homing.schema.catalog import script, statements
from homing.schema.identity import LedgerIdentity, check_schema
from homing.schema.migrate import migrate
from homing.schema.rights import grants

__all__ = ["LedgerIdentity", "check_schema", "grants", "migrate", "script", "statements"]
