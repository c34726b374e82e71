"""`homing doctor`: whether the servers are right. Exit 1 when something must be mended, 4 when a server is away."""

import asyncio
from collections.abc import Collection, Sequence
from typing import Protocol

import typer

from homing.app import Homing
from homing.cli.apps import application_of
from homing.cli.exits import Exit
from homing.cli.features import feature
from homing.cli.ledgers import open_ledger
from homing.cli.output import show_json, show_table
from homing.cli.session import session_of
from homing.config.settings import Settings
from homing.harmless import clean_line
from homing.upkeep.doctor import Examination, Finding, Level, examine_ledger, examine_tracing

_LONGEST = 600


class ExamineEngine(Protocol):
    """`homing.operations.doctor.examine_engine`: what Redis says about itself, judged."""

    def __call__(self, url: str, prefix: str, queues: Collection[str]) -> list[Finding]: ...


def doctor_verb(context: typer.Context) -> None:
    """Examine the servers, and whether the settings fit them. PostgreSQL, Redis and what lies between; changes nothing."""
    session = session_of(context)
    settings = session.settings()
    app = application_of(settings)
    examine_engine: ExamineEngine = feature("homing.operations.doctor", "examine_engine", verb="doctor", extra="redis")
    ledger = asyncio.run(_examine_ledger(settings, app))
    engine = examine_engine(settings.redis_dsn, settings.prefix or app.name, ledger.queues)
    findings = [*ledger.findings, *engine, examine_tracing(settings)]
    if session.json:
        show_json({"findings": [_as_json(finding) for finding in findings]})
    else:
        show_table(("", "what", "finding"), [_row(finding) for finding in _worst_first(findings)])
    if any(finding.level is Level.ERROR for finding in findings):
        raise typer.Exit(Exit.FOUND_WRONG)


async def _examine_ledger(settings: Settings, app: Homing) -> Examination:
    async with open_ledger(settings, "doctor") as ledger:
        return await examine_ledger(ledger, settings, app.queues, app.handlers)


def _worst_first(findings: Sequence[Finding]) -> list[Finding]:
    order = list(reversed(Level))
    return sorted(findings, key=lambda finding: order.index(finding.level))


def _row(finding: Finding) -> tuple[str, str, str]:
    text = f"{finding.text}; {finding.fix}" if finding.fix else finding.text
    return finding.level.value, finding.code, clean_line(text, _LONGEST)


def _as_json(finding: Finding) -> dict[str, str]:
    return {"level": finding.level.value, "code": finding.code, "text": finding.text, "fix": finding.fix}
