"""`homing prune`: what relays do every ten minutes, once and now."""

import asyncio
from dataclasses import asdict
from typing import Annotated

import typer

from homing.cli.acting import confirm, person
from homing.cli.ledgers import open_ledger
from homing.cli.output import show_json, show_text
from homing.cli.session import session_of
from homing.config.settings import Retention, Settings
from homing.durations import describe_seconds
from homing.ledger.actions import Person, keep_action
from homing.service import Progress
from homing.upkeep import Prune, Pruned


def prune_verb(
    context: typer.Context,
    *,
    batch: Annotated[int, typer.Option(help="Rows that one transaction locks.", min=1, max=10_000)] = 500,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count.")] = False,
    why: Annotated[str | None, typer.Option(help="The reason; it is kept with what is done.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Delete what is settled and older than the retention. Nothing that anything still needs leaves."""
    session = session_of(context)
    settings = session.settings()
    windows = _windows(settings.retention)
    if not dry_run:
        confirm(f"Delete what is past its retention ({windows})?", yes=yes)
    pruned = asyncio.run(_prune(settings, person(why), page=batch, dry_run=dry_run))
    if session.json:
        show_json(asdict(pruned) | {"dry_run": dry_run})
    else:
        show_text(f"{pruned} {'would leave' if dry_run else 'left'} ({windows})")


async def _prune(settings: Settings, who: Person, *, page: int, dry_run: bool) -> Pruned:
    async with open_ledger(settings, "prune") as ledger:
        prune = Prune(ledger, settings.retention, page=page, dry_run=dry_run)
        while await prune.tick() is Progress.AGAIN:
            pass
        if not dry_run:
            await keep_action(ledger, who, "prune", asdict(prune.pruned), affected=prune.pruned.rows)
        return prune.pruned


def _windows(retention: Retention) -> str:
    named = {"events": retention.events, "inbox": retention.inbox, "dead letters": retention.dead_letters}
    return ", ".join(f"{name} {describe_seconds(window.total_seconds())}" for name, window in named.items())
