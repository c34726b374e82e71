"""Whether the ledger's tables and indexes are those of the migrations, and whether this role may use them. Pure."""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache

from homing.ledger.ledger import Row
from homing.schema.catalog import migrations
from homing.upkeep.doctor.finding import Finding, error, ok, warning

_MADE = re.compile(r"CREATE (?:UNIQUE )?INDEX (\w+) ON homing\.|CREATE TABLE homing\.(\w+)|DROP INDEX homing\.(\w+)")

READ_ONLY = frozenset({"ledger", "migrations"})
"""The tables that only `homing migrate` writes."""

DEAD_ROWS = 100_000
DEAD_SHARE = 0.5


@cache
def expected_indexes() -> frozenset[str]:
    """The indexes that the migrations leave behind, primary keys included."""
    names: set[str] = set()
    for migration in migrations():
        for index, table, dropped in _MADE.findall(migration.text):
            names.discard(dropped)
            if index or table:
                names.add(index or f"{table}_pkey")
    return frozenset(names)


def judge_indexes(rows: Iterable[Row]) -> Finding:
    """A missing index makes every relay's question read whole tables; a missing unique one lets things happen twice."""
    found = {row["name"]: row["valid"] for row in rows}
    missing = sorted(expected_indexes() - found.keys())
    invalid = sorted(name for name, valid in found.items() if not valid)
    if missing:
        return error(
            "indexes",
            f"indexes are missing: {', '.join(missing)}",
            "make them again with CREATE INDEX CONCURRENTLY as `homing migrate --sql` prints them, or restore the schema",
        )
    if invalid:
        return error("indexes", f"indexes are invalid: {', '.join(invalid)}", "run REINDEX INDEX CONCURRENTLY on each")
    return ok("indexes", f"{len(expected_indexes())} indexes are there and valid")


def judge_rights(rows: Sequence[Row], role: str) -> Finding:
    """Whether this role may read every table, and write those that running processes write."""
    lacking = [
        row["name"] for row in rows if not row["may_read"] or (row["name"] not in READ_ONLY and not row["may_write"])
    ]
    if lacking:
        return error(
            "rights",
            f"role {role} may not use {', '.join(lacking)}",
            f"run `homing migrate --grant-to {role}` as the owner of the tables",
        )
    return ok("rights", f"role {role} may use all {len(rows)} tables")


def judge_vacuum(rows: Sequence[Row], *, autovacuum: bool) -> Iterator[Finding]:
    """Dead rows are walked over by the questions that are asked all day."""
    off = [row["name"] for row in rows if not row["autovacuum"]]
    if not autovacuum or off:
        where = "on the server" if not autovacuum else f"for {', '.join(off)}"
        yield error("autovacuum", f"autovacuum is off {where}", "turn it on: without it routing slows down for ever")
    else:
        yield ok("autovacuum", "autovacuum is on")
    for row in rows:
        if row["dead"] > DEAD_ROWS and row["dead"] > DEAD_SHARE * row["live"]:
            yield warning(
                "dead-rows",
                f"{row['name']} has {row['dead']} dead rows beside {row['live']} live ones",
                f"run VACUUM homing.{row['name']}, and see what keeps autovacuum from it (old transactions, its cost limit)",
            )
