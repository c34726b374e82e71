"""`homing events`: recorded events that could not be routed."""

import asyncio
import sys
from typing import Annotated
from uuid import UUID

import typer

from homing.cli.acting import confirm, person
from homing.cli.ledgers import open_ledger
from homing.cli.output import show_json, show_table, show_text
from homing.cli.session import session_of
from homing.config.settings import Settings
from homing.deadletters.report import clean_line
from homing.ledger.actions import Person
from homing.operations.parked import ParkedEvent, list_parked, release

events_verbs = typer.Typer(
    no_args_is_help=True, help="Events that were recorded and could not be routed.", rich_markup_mode=None
)


@events_verbs.command("parked")
def parked_verb(
    context: typer.Context,
    *,
    limit: Annotated[int, typer.Option(help="At most so many, the oldest first.", min=1, max=10_000)] = 100,
) -> None:
    """List parked events: no job can be made of them, the error says why."""
    session = session_of(context)
    found = asyncio.run(_list(session.settings(), limit))
    if session.json:
        show_json(
            [
                {"event": each.event_id, "topic": each.topic, "recorded": each.created_at, "error": each.error}
                for each in found
            ]
        )
        return
    rows = [
        (str(each.event_id), clean_line(each.topic), f"{each.created_at:%Y-%m-%d %H:%M:%S}", clean_line(each.error))
        for each in found
    ]
    show_table(("event", "topic", "recorded", "error"), rows)


@events_verbs.command("release")
def release_verb(
    context: typer.Context,
    ids: Annotated[list[str], typer.Argument(help="Ids of events; - reads them from standard input.")],
    *,
    why: Annotated[str | None, typer.Option(help="The reason; it is kept with what is done.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Route parked events again, after what was wrong with them was mended."""
    session = session_of(context)
    event_ids = _read_ids(sys.stdin.read().split() if ids == ["-"] else ids)
    confirm(f"Route {len(event_ids)} parked events again?", yes=yes)
    released = asyncio.run(_release(session.settings(), event_ids, person(why)))
    if session.json:
        show_json({"released": released})
    else:
        show_text(f"{released} released")


async def _list(settings: Settings, limit: int) -> list[ParkedEvent]:
    async with open_ledger(settings, "events parked") as ledger:
        return await list_parked(ledger, limit)


async def _release(settings: Settings, event_ids: list[UUID], who: Person) -> int:
    async with open_ledger(settings, "events release") as ledger:
        return await release(ledger, event_ids, who)


def _read_ids(words: list[str]) -> list[UUID]:
    try:
        return list(dict.fromkeys(UUID(word) for word in words))
    except ValueError as error:
        raise typer.BadParameter(f"{error}: give the ids of events, which are UUIDs") from error
