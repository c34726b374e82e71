"""`homing actions`: what people did, through the command line or a page."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

import typer

from homing.cli.ledgers import open_ledger
from homing.cli.moments import read_moment
from homing.cli.output import show_json, show_list, show_text
from homing.cli.session import session_of
from homing.cli.words import moment, name
from homing.config.settings import Settings
from homing.harmless import clean_line
from homing.operations.actions import Action, ActionPage, list_actions

actions_verbs = typer.Typer(no_args_is_help=True, help="What people did: look at it.", rich_markup_mode=None)

_COLUMNS = ("id", "at", "who", "did", "how many", "why", "to what")


@actions_verbs.callback()
def actions() -> None:
    """What people did: look at it."""


@actions_verbs.command("list")
def list_verb(
    context: typer.Context,
    *,
    actor: Annotated[str | None, typer.Option(help="By this person, as in alice@host.")] = None,
    action: Annotated[str | None, typer.Option(help="This deed, as in redrive, cancel, retire.")] = None,
    since: Annotated[
        str | None, typer.Option(help="Since then: 2d (ago), or 2026-01-31T12:00.", metavar="TIME")
    ] = None,
    after: Annotated[
        int | None, typer.Option(help="The next page: the id that this one ended with.", min=1, metavar="ID")
    ] = None,
    limit: Annotated[int, typer.Option(help="At most so many.", min=1, max=1_000, metavar="N")] = 50,
) -> None:
    """List what people did: who, when, what, to what, how many and why; newest first."""
    session = session_of(context)
    begin = None if since is None else read_moment(since, "--since")

    async def read(settings: Settings) -> ActionPage:
        async with open_ledger(settings, "actions list") as ledger:
            return await list_actions(ledger, actor=actor, action=action, since=begin, after=after, most=limit)

    page = asyncio.run(read(session.settings()))
    if session.json:
        show_json({"actions": [asdict(each) for each in page.actions], "after": page.after})
        return
    show_list(_COLUMNS, [_cells(each) for each in page.actions])
    if page.after is not None:
        show_text(f"more: --after {page.after}")


def _cells(each: Action) -> Sequence[str]:
    return (
        str(each.id),
        moment(each.at),
        name(each.actor),
        name(each.action),
        f"{each.affected:,}",
        clean_line(each.reason or "", 80),
        clean_line(json.dumps(each.subject, ensure_ascii=False)),
    )
