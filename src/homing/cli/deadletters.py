"""`homing deadletters`: what died, one by one or grouped, and closing what need not run any more."""

import asyncio
import json
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any

import typer

from homing.cli.acting import confirm, person, read_ids
from homing.cli.choosing import (
    ConsumerOption,
    ErrorClassOption,
    ErrorTextOption,
    FingerprintOption,
    KindOption,
    QueueOption,
    SinceOption,
    UntilOption,
    choose,
)
from homing.cli.ledgers import open_ledger
from homing.cli.letter import letter_as_json, show_as_text
from homing.cli.output import show_json, show_list, show_text
from homing.cli.session import session_of
from homing.config.settings import Settings
from homing.deadletters.filters import Filter
from homing.deadletters.letters import (
    NEWEST,
    Groups,
    LetterPage,
    group_letters,
    letter_history,
    list_letters,
    show_letter,
)
from homing.deadletters.redrive import Redrive
from homing.errors import UnknownId
from homing.harmless import clean_line
from homing.ledger.actions import Person
from homing.ledger.ledger import Row

deadletters_verbs = typer.Typer(
    no_args_is_help=True, help="Deliveries that died: look at them, or close them.", rich_markup_mode=None
)

_LIST = ("id", "failed_at", "kind", "consumer", "attempts_made")
_LIST_SHOWN = ("id", "failed at", "kind", "consumer", "attempts", "error")
_GROUPS = ("fingerprint", "letters", "gone", "settled", "consumer", "error_class", "oldest", "newest", "sample")
_GROUPS_SHOWN = ("fingerprint", "letters", "consumer", "error_class", "newest", "sample")


@deadletters_verbs.command("list")
def list_verb(
    context: typer.Context,
    *,
    consumer: ConsumerOption = None,
    queue: QueueOption = None,
    kind: KindOption = None,
    fingerprint: FingerprintOption = None,
    error_class: ErrorClassOption = None,
    error_text: ErrorTextOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    closed: Annotated[bool, typer.Option("--closed", help="Those that were closed.")] = False,
    every: Annotated[bool, typer.Option("--all", help="Open ones and closed ones.")] = False,
    before: Annotated[
        int, typer.Option(help="The next page: letters with a smaller id.", min=1, metavar="ID")
    ] = NEWEST,
    limit: Annotated[int, typer.Option(help="At most so many.", min=1, max=10_000, metavar="N")] = 50,
) -> None:
    """List dead letters, newest first; open ones unless said otherwise."""
    session = session_of(context)
    chosen = choose(consumer, queue, kind, fingerprint, error_class, error_text, since, until)
    is_open = None if every else not closed
    page = asyncio.run(_list(session.settings(), chosen, is_open=is_open, before=before, most=limit))
    if session.json:
        show_json({"letters": [_as_json(row) for row in page.letters], "before": page.before})
        return
    show_list(_LIST_SHOWN, [[*_cells(row, _LIST), _error(row)] for row in page.letters])
    if page.before is not None:
        show_text(f"more: --before {page.before}")


@deadletters_verbs.command("groups")
def groups_verb(
    context: typer.Context,
    *,
    consumer: ConsumerOption = None,
    queue: QueueOption = None,
    kind: KindOption = None,
    fingerprint: FingerprintOption = None,
    error_class: ErrorClassOption = None,
    error_text: ErrorTextOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    limit: Annotated[int, typer.Option(help="At most so many groups.", min=1, max=10_000, metavar="N")] = 50,
) -> None:
    """Group open dead letters by fingerprint (consumer, error class, place), the most numerous first."""
    session = session_of(context)
    chosen = choose(consumer, queue, kind, fingerprint, error_class, error_text, since, until)
    show_groups(asyncio.run(_group(session.settings(), chosen, limit)), as_json=session.json)


@deadletters_verbs.command("show")
def show_verb(
    context: typer.Context,
    letter: Annotated[int, typer.Argument(help="The id of the letter.", min=1)],
    *,
    payload: Annotated[
        bool, typer.Option("--payload", help="Print only the payload of its next run, to be edited for a redrive.")
    ] = False,
) -> None:
    """Show one dead letter with everything that is known of it, and the earlier deaths of its delivery."""
    session = session_of(context)
    row, history = asyncio.run(_show(session.settings(), letter))
    shown = letter_as_json(row, history)
    if payload:
        if shown["payload"] is None:
            raise UnknownId(f"the event of letter {letter} was pruned: its payload is gone")
        show_text(json.dumps(shown["payload"], indent=2))
    elif session.json:
        show_json(shown)
    else:
        show_as_text(shown)


@deadletters_verbs.command("dismiss")
def dismiss_verb(
    context: typer.Context,
    letters: Annotated[
        list[str], typer.Argument(help="The ids, or - to read them from standard input.", metavar="ID…")
    ],
    *,
    why: Annotated[str, typer.Option(help="Why they need not run any more; it is kept.")],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Close dead letters without running them; their deliveries stay dead."""
    session = session_of(context)
    settings = session.settings()
    ids = read_ids(letters, "dead letter")
    confirm(f"Dismiss {len(ids)} dead letters for good?", yes=yes)
    dismissed = asyncio.run(_dismiss(settings, ids, person(why)))
    left = sorted(set(ids) - set(dismissed))
    if session.json:
        show_json({"dismissed": dismissed, "not_open": left})
    else:
        show_text(f"{len(dismissed)} dismissed")
    if left:
        raise UnknownId(f"not open, or never there: {', '.join(map(str, left))}")


def show_groups(groups: Groups, *, as_json: bool) -> None:
    """Groups and their sums: what `groups` and a dry run print."""
    if as_json:
        rows = [{name: row[name] for name in _GROUPS} for row in groups.groups]
        sums = {"letters": groups.letters, "gone": groups.gone, "settled": groups.settled}
        show_json({"groups": rows} | sums | {"oldest": groups.oldest, "newest": groups.newest})
        return
    show_list([name.replace("_", " ") for name in _GROUPS_SHOWN], [_cells(row, _GROUPS_SHOWN) for row in groups.groups])
    refused = groups.gone + groups.settled
    show_text(f"{groups.letters} open dead letters; a redrive would refuse {refused} of them")
    if groups.gone:
        show_text(f"  {groups.gone} because their event was pruned")
    if groups.settled:
        show_text(f"  {groups.settled} because their delivery is not dead any more")


async def _list(settings: Settings, chosen: Filter, *, is_open: bool | None, before: int, most: int) -> LetterPage:
    async with open_ledger(settings, "deadletters") as ledger:
        return await list_letters(ledger, chosen, is_open=is_open, before=before, most=most)


async def _group(settings: Settings, chosen: Filter, most: int) -> Groups:
    async with open_ledger(settings, "deadletters") as ledger:
        return await group_letters(ledger, chosen, most=most)


async def _show(settings: Settings, letter: int) -> tuple[Row, list[Row]]:
    async with open_ledger(settings, "deadletters") as ledger:
        row = await show_letter(ledger, letter)
        return row, await letter_history(ledger, row)


async def _dismiss(settings: Settings, letters: tuple[int, ...], who: Person) -> list[int]:
    async with open_ledger(settings, "deadletters") as ledger:
        return await Redrive(ledger).dismiss(letters, who)


def _as_json(row: Any) -> Mapping[str, object]:
    return dict(row)


def _cells(row: Row, columns: tuple[str, ...]) -> list[str]:
    return [_cell(row[name]) for name in columns]


def _error(row: Row) -> str:
    closed = f"({row['closed_as']}) " if row["closed_as"] else ""
    return clean_line(f"{closed}{row['error_class']}: {row['error_text']}")


def _cell(value: object) -> str:
    match value:
        case None:
            return ""
        case datetime():
            return f"{value:%Y-%m-%d %H:%M:%S}"
        case _:
            return clean_line(str(value))
