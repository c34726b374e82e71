"""A plan that is made on a young database, whose tables nobody has analysed, is still the right one when they have grown."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

import homing
from homing.embedded import EmbeddedPostgres
from homing.schema.statement import parse
from tests.own_servers import fresh_ledger

SOURCE = Path(homing.__file__).parent
STATEMENTS = {f"{path.parent.parent.name}/{path.stem}": path for path in sorted(SOURCE.rglob("sql/*.sql"))}

BIG = ("deliveries", "outbox_events", "dead_letters")
"""The tables that grow with every job. The others hold routes, queues and processes: whoever scans them reads a page."""

UNIQUE_ENOUGH = {"id", "event_id", "campaign"}
"""First columns of indexes that lead to what was asked for and to little else."""

READ_ALL_FIRST = {"Sort", "Aggregate", "Hash", "Materialize"}
"""Nodes that read all there is before they give a row: a LIMIT above them bounds nothing below."""

ON_PURPOSE = {
    "deadletters/dismiss": "once for what a person does; it walks over the open letters at most",
    "deadletters/groups": "groups all open letters, or as many as it is given, for a person or before a campaign",
    "operations/died_since": "letters alone, every few seconds while a person looks at `homing top`; a young database has few",
    "operations/release": "once for what a person does; it walks over the parked events at most",
    "operations/tail_letters": "letters alone, while a person follows them; a young database has few",
    "operations/totals": "counts whatever comes first, up to a bound",
    "schema/change_engine": "asks whether there is any row at all, once, in a migration",
    "upkeep/audit_consumers": "an audit looks at everything",
    "upkeep/audit_contradictions": "an audit looks at everything",
    "upkeep/audit_topics": "an audit looks at everything",
}
"""Statements that may walk, and why."""

NOT_EXPLAINED = {"schema/create_migrations", "schema/create_schema"}
"""What makes tables has no plan."""


@pytest.fixture(scope="module")
def young(postgres_server: EmbeddedPostgres) -> Iterator[psycopg.Connection[Any]]:
    """A new ledger without rows and without statistics."""
    with psycopg.connect(fresh_ledger(postgres_server), autocommit=True) as connection:
        yield connection


def plan_of(connection: psycopg.Connection[Any], name: str) -> dict[str, Any]:
    """The plan that a prepared statement keeps, whatever its values."""
    statement = parse(name, STATEMENTS[name].read_text(encoding="utf-8"))
    row = connection.execute(("EXPLAIN (GENERIC_PLAN, FORMAT JSON) " + statement.numbered).encode()).fetchone()
    assert row is not None
    plan: dict[str, Any] = row[0][0]["Plan"]
    return plan


def first_columns(connection: psycopg.Connection[Any]) -> dict[str, str]:
    """The indexes of the big tables, and the column that each begins with."""
    found = connection.execute(
        "SELECT c.relname, a.attname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid"
        " JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]"
        " WHERE i.indrelid = ANY (SELECT ('homing.' || t)::regclass FROM unnest(%s::text[]) t)",
        (list(BIG),),
    )
    return dict(found.fetchall())


def walks(node: dict[str, Any], first: dict[str, str], *, bounded: bool = False) -> Iterator[str]:
    """The places where a plan reads more of a big table than it asks for: a whole table, or an index other than along a key.

    An index that is read in its order up to a LIMIT is fine: it ends with the page.
    """
    kind, index = node["Node Type"], node.get("Index Name")
    if kind == "Seq Scan" and node["Relation Name"] in BIG:
        yield f"Seq Scan on {node['Relation Name']}"
    if index in first and not bounded:
        column, condition = first[index], node.get("Index Cond", "")
        if column not in UNIQUE_ENOUGH or f"({column} " not in condition:
            yield f"{kind} using {index}, {condition or 'all of it'}"
    bounded = kind == "Limit" or (bounded and kind not in READ_ALL_FIRST)
    for child in node.get("Plans", ()):
        yield from walks(child, first, bounded=bounded)


@pytest.mark.parametrize("name", sorted(STATEMENTS.keys() - NOT_EXPLAINED))
def test_a_plan_of_a_young_database_goes_by_keys(young: psycopg.Connection[Any], name: str) -> None:
    """No statement walks over a big table or an index of one, but those that look at everything; and these still do."""
    found = list(walks(plan_of(young, name), first_columns(young)))
    assert bool(found) == (name in ON_PURPOSE), found


def test_the_exceptions_are_statements() -> None:
    """No name in the lists is one of a file that is gone."""
    assert STATEMENTS.keys() >= ON_PURPOSE.keys() | NOT_EXPLAINED
