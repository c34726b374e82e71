"""Databases for tests: copied from a template, and handed out again when a test has left nothing but rows and tables of its own."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import sql

from homing.embedded import EmbeddedPostgres

MOST_TIMES = 40
"""How often a database is handed out: what no reset brings back, such as the age of its catalogs, stays small."""

_END_OTHERS = """
SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
"""

# Whoever changes an object of the schema writes its row in the catalogs anew, with another xmin. What ANALYZE found, the terms of the
# database, and the rows that the template has are compared as they are. Tables of tests lie in the same schema, since it bears the name
# of the user: they are younger than the last one of the template.
_SHAPE = """
WITH schema AS (SELECT oid, nspacl FROM pg_namespace WHERE nspname = 'homing'),
  own AS (SELECT class.oid, class.xmin, relkind, reltuples FROM pg_class class, schema WHERE relnamespace = schema.oid AND class.oid <= %(last)s)
SELECT md5(concat_ws(';',
  (SELECT string_agg(concat(oid, ':', xmin, ':', reltuples < 0), ',' ORDER BY oid) FROM own),
  (SELECT string_agg(concat(attrelid, ':', attnum, ':', xmin), ',' ORDER BY attrelid, attnum) FROM pg_attribute WHERE attrelid IN (SELECT oid FROM own)),
  (SELECT string_agg(concat(indexrelid, ':', xmin), ',' ORDER BY indexrelid) FROM pg_index WHERE indrelid IN (SELECT oid FROM own)),
  (SELECT string_agg(concat(oid, ':', xmin), ',' ORDER BY oid) FROM pg_constraint WHERE conrelid IN (SELECT oid FROM own)),
  (SELECT string_agg(concat(oid, ':', xmin), ',' ORDER BY oid) FROM pg_trigger WHERE tgrelid IN (SELECT oid FROM own)),
  (SELECT string_agg(concat(ev_class, ':', xmin), ',' ORDER BY oid) FROM pg_rewrite WHERE ev_class IN (SELECT oid FROM own)),
  (SELECT string_agg(concat(oid, ':', xmin), ',' ORDER BY oid) FROM pg_proc WHERE pronamespace IN (SELECT oid FROM schema)),
  (SELECT count(*) FROM pg_type WHERE typnamespace IN (SELECT oid FROM schema) AND typrelid = 0 AND typcategory <> 'A'),
  (SELECT concat(oid, ':', nspacl) FROM schema),
  (SELECT string_agg(extname, ',' ORDER BY extname) FROM pg_extension),
  (SELECT string_agg(evtname, ',' ORDER BY evtname) FROM pg_event_trigger),
  (SELECT string_agg(pubname, ',' ORDER BY pubname) FROM pg_publication),
  (SELECT string_agg(setconfig::text, ',') FROM pg_db_role_setting WHERE setdatabase = base.oid),
  (SELECT concat(base.datacl, base.datconnlimit, base.datdba)),
  (SELECT sum(pg_relation_size(oid)) > 1000000 FROM own WHERE relkind = 'r'),
  (SELECT string_agg(engine, ',') FROM homing.ledger),
  (SELECT string_agg(migration::text, ',' ORDER BY migration::text) FROM homing.migrations migration)))
FROM pg_database base WHERE base.datname = current_database()
"""

_LAST = "SELECT max(oid)::bigint FROM pg_class"

_STRANGERS = """
SELECT relname, CASE relkind WHEN 'v' THEN 'VIEW' WHEN 'm' THEN 'MATERIALIZED VIEW' WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END
FROM pg_class WHERE relnamespace = 'homing'::regnamespace AND oid > %(last)s AND relkind IN ('r', 'p', 'v', 'm', 'S')
ORDER BY relkind = 'S', oid
"""

_TABLES = """
SELECT relname FROM pg_class
WHERE relnamespace = 'homing'::regnamespace AND relkind = 'r' AND relname NOT IN ('ledger', 'migrations') ORDER BY relname
"""

_OTHER_SCHEMAS = """
SELECT nspname FROM pg_namespace schema
WHERE nspname !~ '^pg_' AND nspname NOT IN ('homing', 'information_schema')
  AND (nspname <> 'public' OR EXISTS (SELECT FROM pg_class WHERE relnamespace = schema.oid)
    OR EXISTS (SELECT FROM pg_proc WHERE pronamespace = schema.oid) OR EXISTS (SELECT FROM pg_type WHERE typnamespace = schema.oid))
"""

_RESTART_SEQUENCES = """
SELECT setval(format('%I.%I', schemaname, sequencename)::regclass, start_value, false) FROM pg_sequences WHERE schemaname = 'homing'
"""

_NEW_PUBLIC = "CREATE SCHEMA public AUTHORIZATION pg_database_owner; GRANT USAGE ON SCHEMA public TO PUBLIC"


class Databases:
    """Copies of one migrated template, each lent to one test at a time."""

    def __init__(self, server: EmbeddedPostgres, admin: psycopg.Connection, template: str) -> None:
        self._server = server
        self._admin = admin
        self._template = template
        self._lent: dict[str, int] = {}
        self._spare: list[str] = []
        with psycopg.connect(server.url(template), autocommit=True) as connection:
            (last,) = connection.execute(_LAST).fetchall()
            self._last = int(last[0])
            self._shape = self._shape_of(connection)
            self._tables = [str(row[0]) for row in connection.execute(_TABLES)]

    @contextmanager
    def lend(self) -> Iterator[str]:
        """The URL of a database as if just migrated, with a ledger id of its own."""
        name = self._spare.pop() if self._spare else self._copy()
        self._lent[name] += 1
        try:
            yield self._server.url(name)
        finally:
            if self._lent[name] < MOST_TIMES and self._cleaned(name):
                self._spare.append(name)
            else:
                drop(self._admin, name)

    def _copy(self) -> str:
        name = copy(self._admin, self._template)
        with psycopg.connect(self._server.url(name), autocommit=True) as connection:
            _name_ledger(connection)
        self._lent[name] = 0
        return name

    def _cleaned(self, name: str) -> bool:
        try:
            with psycopg.connect(self._server.url(name), autocommit=True) as connection:
                connection.execute(_END_OTHERS)
                return self._wiped(connection)
        except psycopg.Error:  # it is gone, locked, or cannot be read any more
            return False

    def _wiped(self, connection: psycopg.Connection) -> bool:
        if self._shape_of(connection) != self._shape:
            return False
        for name, kind in connection.execute(_STRANGERS, {"last": self._last}).fetchall():
            dropped = sql.SQL("DROP {} IF EXISTS homing.{} CASCADE").format(sql.SQL(kind), sql.Identifier(name))
            connection.execute(dropped)
        for schema in [str(row[0]) for row in connection.execute(_OTHER_SCHEMAS)]:
            connection.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(schema)))
            if schema == "public":
                connection.execute(_NEW_PUBLIC)
        for table in self._tables:
            connection.execute(sql.SQL("DELETE FROM homing.{}").format(sql.Identifier(table)))
        connection.execute(_RESTART_SEQUENCES)
        connection.execute("SELECT pg_stat_reset()")
        _name_ledger(connection)
        return True

    def _shape_of(self, connection: psycopg.Connection) -> str:
        (found,) = connection.execute(_SHAPE, {"last": self._last}).fetchall()
        return str(found[0])


def copy(admin: psycopg.Connection, template: str) -> str:
    """Make a copy of a database; its name."""
    name = f"t_{secrets.token_hex(6)}"
    # Files are copied in a fifth of the time that logging every page of them takes; PostgreSQL 14 knows no other way.
    terms = "CREATE DATABASE {} TEMPLATE {}" + (" STRATEGY FILE_COPY" if admin.info.server_version >= 150_000 else "")
    admin.execute(sql.SQL(terms).format(sql.Identifier(name), sql.Identifier(template)))
    return name


def drop(admin: psycopg.Connection, name: str) -> None:
    """End a database with whoever is connected to it."""
    admin.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))


def _name_ledger(connection: psycopg.Connection) -> None:
    connection.execute("UPDATE homing.ledger SET ledger_id = gen_random_uuid()")
