"""`homing events`: what was recorded, where it is, and what came of it."""

import asyncio
import sys
from typing import Annotated
from uuid import UUID

import typer

from homing.cli.acting import confirm, person
from homing.cli.event_report import show_lineage, show_page, show_payload
from homing.cli.ledgers import open_ledger
from homing.cli.moments import read_moment
from homing.cli.output import show_json, show_text
from homing.cli.session import session_of
from homing.config.settings import Settings
from homing.ledger.actions import Person
from homing.operations.events import EventPage, EventState, Lineage, list_events, release, show_event

events_verbs = typer.Typer(
    no_args_is_help=True, help="Recorded events: look at them, release parked ones.", rich_markup_mode=None
)


@events_verbs.command("list")
def list_verb(
    context: typer.Context,
    *,
    topic: Annotated[str | None, typer.Option(help="Of this topic.")] = None,
    state: Annotated[
        EventState | None, typer.Option(help="Where they are; unpublished ones are scheduled and unroutable ones too.")
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            help="Recorded since then (those not routed: due since then): 2d (ago), or 2026-01-31T12:00.",
            metavar="TIME",
        ),
    ] = None,
    after: Annotated[UUID | None, typer.Option(help="The next page: the id that this one ended with.")] = None,
    limit: Annotated[int, typer.Option(help="At most so many.", min=1, max=500, metavar="N")] = 50,
) -> None:
    """List events, newest first; those not routed by topic, in each the first due first. Their payloads are not shown."""
    session = session_of(context)
    moment = None if since is None else read_moment(since, "--since")

    async def read(settings: Settings) -> EventPage:
        async with open_ledger(settings, "events list") as ledger:
            return await list_events(ledger, topic=topic, state=state, since=moment, after=after, most=limit)

    show_page(asyncio.run(read(session.settings())), as_json=session.json)


@events_verbs.command("show")
def show_verb(
    context: typer.Context,
    event: Annotated[UUID, typer.Argument(help="The id of the event.")],
    *,
    payload: Annotated[bool, typer.Option("--payload", help="Print only its payload, which may be personal.")] = False,
) -> None:
    """Show one event: its headers, its trace, its deliveries and every death of them."""
    session = session_of(context)

    async def read(settings: Settings) -> Lineage:
        async with open_ledger(settings, "events show") as ledger:
            return await show_event(ledger, event, payload=payload)

    found = asyncio.run(read(session.settings()))
    if payload:
        show_payload(found, as_json=session.json)
    else:
        show_lineage(found, as_json=session.json)


@events_verbs.command("release")
def release_verb(
    context: typer.Context,
    ids: Annotated[list[str], typer.Argument(help="Ids of events; - reads them from standard input.", metavar="ID…")],
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


async def _release(settings: Settings, event_ids: list[UUID], who: Person) -> int:
    async with open_ledger(settings, "events release") as ledger:
        return await release(ledger, event_ids, who)


def _read_ids(words: list[str]) -> list[UUID]:
    try:
        return list(dict.fromkeys(UUID(word) for word in words))
    except ValueError as error:
        raise typer.BadParameter(f"{error}: give the ids of events, which are UUIDs") from error
