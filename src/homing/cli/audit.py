"""`homing audit`: whether the ledger is right. Exit 1 when something is overdue, or contradicts itself."""

import asyncio
from dataclasses import asdict
from datetime import datetime
from typing import Annotated

import typer

from homing.cli.exits import Exit
from homing.cli.ledgers import open_ledger
from homing.cli.moments import read_moment
from homing.cli.output import show_error, show_json, show_table, show_text
from homing.cli.session import session_of
from homing.config.settings import Settings
from homing.durations import describe_seconds, parse_duration
from homing.harmless import clean_line
from homing.upkeep.audit import Audit, read_audit

_TOPICS = ("topic", "events", "to route", "overdue", "scheduled", "parked", "oldest", "consumers")
_CONSUMERS = ("consumer", "expected", "done", "dead", "cancelled", "in flight", "overdue", "open letters")


def audit_verb(
    context: typer.Context,
    *,
    since: Annotated[
        str, typer.Option(help="Count settled deliveries of events recorded since then.", metavar="TIME")
    ] = "1d",
    overdue: Annotated[str, typer.Option(help="How late a routing or a look may be.", metavar="DURATION")] = "5m",
) -> None:
    """Compare what was recorded with what became of it. Reads only, and asks PostgreSQL alone."""
    session = session_of(context)
    moment, late_seconds = read_moment(since, "--since"), _seconds(overdue)
    audit = asyncio.run(_read(session.settings(), moment, late_seconds))
    if session.json:
        show_json(asdict(audit) | {"notes": audit.notes, "problems": audit.problems})
    else:
        _show(audit)
    if audit.problems:
        raise typer.Exit(Exit.FOUND_WRONG)


async def _read(settings: Settings, since: datetime, overdue_seconds: float) -> Audit:
    async with open_ledger(settings, "audit") as ledger:
        return await read_audit(ledger, since=since, overdue_seconds=overdue_seconds)


def _show(audit: Audit) -> None:
    show_table(
        _TOPICS,
        [
            (
                clean_line(topic.topic),
                *map(str, (topic.events, topic.claimable, topic.overdue, topic.scheduled, topic.parked)),
                describe_seconds(float(round(topic.oldest_seconds))) if topic.claimable else "",
                "yes" if topic.routable else "none",
            )
            for topic in audit.topics
        ],
    )
    show_table(
        _CONSUMERS,
        [
            (
                clean_line(each.consumer),
                *map(str, (each.expected, each.done, each.dead, each.cancelled)),
                *map(str, (each.in_flight, each.overdue, each.open_letters)),
            )
            for each in audit.consumers
        ],
    )
    for note in audit.notes:
        show_text(clean_line(note, 400))
    for problem in audit.problems:
        show_error(clean_line(problem, 400))


def _seconds(text: str) -> float:
    try:
        return parse_duration(text).total_seconds()
    except (ValueError, OverflowError) as error:
        raise typer.BadParameter(str(error), param_hint="--overdue") from error
