"""`homing backfill`: a consumer that is new gets events of the past. PostgreSQL alone is asked; relays hand the jobs over."""

import asyncio
from datetime import datetime
from typing import Annotated

import typer

from homing.cli.acting import confirm, person
from homing.cli.ledgers import open_ledger
from homing.cli.moments import read_moment
from homing.cli.output import show_json, show_text
from homing.cli.session import session_of
from homing.clock import SystemClock
from homing.config.settings import Settings
from homing.harmless import clean_line
from homing.ledger.actions import Person
from homing.upkeep import Backfill, Range

LINE_SECONDS = 1.0
"""How often a long backfill says how far it is, on stderr."""


def backfill_verb(
    context: typer.Context,
    *,
    consumer: Annotated[str, typer.Option(help="Who gets them.", metavar="QUEUE.JOB")],
    topic: Annotated[str, typer.Option(help="Of this topic.")],
    since: Annotated[
        str, typer.Option(help="Recorded since then: 7d (ago), or 2026-01-31T12:00+01:00.", metavar="TIME")
    ],
    why: Annotated[str, typer.Option(help="The reason; it is kept with what is done.")],
    until: Annotated[str | None, typer.Option(help="Recorded before then; now otherwise.", metavar="TIME")] = None,
    rate: Annotated[float, typer.Option(help="Deliveries a second.", min=0.01, max=100_000)] = 200.0,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Open deliveries of old events for a new consumer. Of events that were routed without it; running it twice is running it once."""
    session = session_of(context)
    chosen = Range(
        topic=topic,
        consumer=consumer,
        since=read_moment(since, "--since"),
        until=SystemClock().now() if until is None else read_moment(until, "--until"),
    )
    who = person(_needed(why))
    settings = session.settings()
    wanted = asyncio.run(_fill(settings, chosen, who, rate=None, dry_run=True)) if dry_run or not yes else None
    if not dry_run:
        confirm(f"Open {wanted} deliveries {_describe(chosen)}?", yes=yes)
        opened = asyncio.run(_fill(settings, chosen, who, rate=rate, dry_run=False))
    else:
        opened = 0
    if session.json:
        show_json(chosen.as_json() | {"opened": opened} | ({} if wanted is None else {"wanted": wanted}))
    elif dry_run:
        show_text(f"{wanted} deliveries would be opened {_describe(chosen)}")
    else:
        show_text(f"{opened} deliveries opened {_describe(chosen)}")


async def _fill(settings: Settings, chosen: Range, who: Person, *, rate: float | None, dry_run: bool) -> int:
    async with open_ledger(settings, "backfill") as ledger:
        backfill = Backfill(ledger, chosen, rate=rate, dry_run=dry_run)
        await backfill.require_route()
        clock = SystemClock()
        said = clock.monotonic()
        while (opened := await backfill.step(who)) is not None:
            if clock.monotonic() - said >= LINE_SECONDS:
                said = clock.monotonic()
                typer.echo(f"{backfill.opened} {'counted' if dry_run else 'opened'} so far", err=True)
            if rate is not None:
                await asyncio.sleep(opened / rate)
        return backfill.opened


def _describe(chosen: Range) -> str:
    return clean_line(
        f"of {chosen.topic} for {chosen.consumer}, recorded from {_show(chosen.since)} to {_show(chosen.until)}"
    )


def _show(moment: datetime) -> str:
    return moment.isoformat(" ", "seconds")


def _needed(why: str) -> str:
    if not why.strip():
        raise typer.BadParameter("say why: whoever looks at it later must know", param_hint="--why")
    return why
