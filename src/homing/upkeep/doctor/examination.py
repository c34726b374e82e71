"""Everything about PostgreSQL and the configuration, asked once and judged. Redis is examined by who has its client."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import asyncpg

from homing.app import Handler, Queue
from homing.config.settings import Settings
from homing.ledger.ledger import Ledger, Row
from homing.ledger.statements import QUEUES
from homing.schema.statement import load
from homing.upkeep.doctor import reach, schema, server, times
from homing.upkeep.doctor.finding import Finding, ok, warning

_HERE = "homing.upkeep.doctor"
SERVER = load(_HERE, "server")
INDEXES = load(_HERE, "indexes")
TABLES = load(_HERE, "tables")


@dataclass(frozen=True, slots=True)
class Examination:
    """What was found in PostgreSQL, and the queues that the ledger knows, for the examination of the engine."""

    findings: tuple[Finding, ...]
    queues: tuple[str, ...]


async def examine_ledger(
    ledger: Ledger, settings: Settings, queues: Sequence[Queue], handlers: Sequence[Handler]
) -> Examination:
    """Ask an open ledger, which has passed the check of its version; reads only, and sends one notification to itself."""
    asked = datetime.now(UTC)
    (facts,) = await ledger.fetch(SERVER)
    answered = datetime.now(UTC)
    tables = await ledger.fetch(TABLES)
    findings = [
        ok("schema", f"the tables are those of this version, ledger {ledger.ledger_id}"),
        schema.judge_indexes(await ledger.fetch(INDEXES)),
        schema.judge_rights(tables, facts["role"]),
        *schema.judge_vacuum(tables, autovacuum=facts["autovacuum"] == "on"),
        *_judge_server(facts, settings, queues, handlers),
        server.judge_clock(facts, asked + (answered - asked) / 2, (answered - asked).total_seconds()),
        *await _judge_reach(settings),
        *times.judge_times(handlers, settings),
        *times.judge_retention(queues, handlers, settings),
    ]
    return Examination(tuple(findings), tuple(row["queue"] for row in await ledger.fetch(QUEUES)))


def _judge_server(
    facts: Row, settings: Settings, queues: Iterable[Queue], handlers: Iterable[Handler]
) -> Iterator[Finding]:
    seconds, name = times.longest_attempt(handlers, settings)
    yield server.judge_writable(facts)
    yield server.judge_commits(facts)
    yield server.judge_transactions(facts)
    yield from server.judge_session(facts)
    yield server.judge_idle_timeout(facts, attempt_seconds=seconds, handler=name)
    processes = f"{settings.worker_processes} worker processes" if settings.worker_processes > 1 else "one worker"
    yield server.judge_budget(facts, needed=times.connections_needed(queues, settings), processes=processes)


async def _judge_reach(settings: Settings) -> tuple[Finding, ...]:
    try:
        path = await reach.find_path(settings.asyncpg_dsn, settings.listen_dsn)
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        text = f"the probes of the way to PostgreSQL failed: {str(error) or type(error).__name__}"
        return (
            warning("listen", text, "see whether HOMING_LISTEN_DATABASE_URL and the limit of connections are right"),
        )
    return reach.judge_listening(path), reach.judge_pooler(path)
