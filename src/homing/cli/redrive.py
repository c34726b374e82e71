"""`homing redrive`: dead deliveries run again, one by one or as a campaign."""

import asyncio
import sys
from pathlib import Path
from typing import Annotated
from uuid import UUID

import typer

from homing.cli.acting import confirm, person
from homing.cli.apps import application_of
from homing.cli.campaign import drive, shown
from homing.cli.campaign_report import show_campaigns, show_progress
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
from homing.cli.deadletters import show_groups
from homing.cli.exits import Exit
from homing.cli.ledgers import open_ledger
from homing.cli.output import show_error, show_json, show_text
from homing.cli.session import Session, session_of
from homing.config.settings import Settings
from homing.deadletters.campaign import Terms
from homing.deadletters.campaigns import Campaigns, Progress
from homing.deadletters.editing import edit_payload
from homing.deadletters.filters import Filter
from homing.deadletters.letters import Groups, group_letters, show_letter
from homing.deadletters.redrive import Redrive
from homing.deadletters.runner import CampaignRunner
from homing.errors import Refused, UnknownId
from homing.ledger.actions import Person
from homing.ledger.ledger import Ledger

_DEFAULTS = Terms()
_TRANSACTIONS = 8
"""How many letters of a campaign are redriven at the same time: one after the other, each would wait for the round trips of the one before."""

IdsOption = Annotated[list[str] | None, typer.Option("--id", help="This letter; - reads ids from stdin.", metavar="ID")]
EverythingOption = Annotated[bool, typer.Option("--everything", help="Every open letter.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Only show what would be redriven.")]
CanaryOption = Annotated[int, typer.Option("--canary", help="So many first; the rest only if none dies again.", min=0)]
RateOption = Annotated[float, typer.Option("--rate", help="Letters per second.", min=0.01, max=100_000)]
StopAfterOption = Annotated[
    int, typer.Option("--stop-after", help="Stop after so many deaths of one fingerprint; 0 = never.", min=0)
]
EditOption = Annotated[
    Path | None, typer.Option("--edit", help="With one --id: run it with this payload (JSON; - = stdin).")
]
WhyOption = Annotated[str | None, typer.Option("--why", help="The reason; it is kept with what is done.")]
YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
ResumeOption = Annotated[
    UUID | None, typer.Option("--resume", help="Go on with a paused campaign.", metavar="CAMPAIGN")
]
StopOption = Annotated[UUID | None, typer.Option("--stop", help="End a campaign for good.", metavar="CAMPAIGN")]
ListOption = Annotated[bool, typer.Option("--list", help="List campaigns, newest first.")]


def redrive_verb(
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
    ids: IdsOption = None,
    everything: EverythingOption = False,
    dry_run: DryRunOption = False,
    canary: CanaryOption = _DEFAULTS.canary,
    rate: RateOption = _DEFAULTS.rate,
    stop_after: StopAfterOption = 10,
    edit: EditOption = None,
    why: WhyOption = None,
    yes: YesOption = False,
    resume: ResumeOption = None,
    stop: StopOption = None,
    list_: ListOption = False,
) -> None:
    """Run dead deliveries again. Every condition that is given must fit; Ctrl-C pauses; a relay takes over from a killed command."""
    session = session_of(context)
    chosen = choose(
        consumer, queue, kind, fingerprint, error_class, error_text, since, until, ids=ids, everything=everything
    )
    settings = session.settings()
    if list_ or stop is not None or resume is not None:
        _require_alone(chosen, edit, asked=[list_, stop is not None, resume is not None])
        _manage(session, settings, person(why), stop=stop, resume=resume)
    elif dry_run:
        show_groups(asyncio.run(_preview(settings, chosen)), as_json=session.json)
    elif edit is not None:
        _redrive_edited(session, settings, chosen, edit, person(_needed(why)))
    elif chosen.ids is not None and chosen == Filter(ids=chosen.ids):
        confirm(f"Redrive {len(chosen.ids)} dead letters?", yes=yes)
        _redrive_each(session, settings, chosen.ids, person(_needed(why)))
    else:
        terms = Terms(rate=rate, canary=canary, stop_after=stop_after or None)
        _redrive_many(session, settings, chosen, terms, person(_needed(why)), yes=yes)


def _manage(session: Session, settings: Settings, who: Person, *, stop: UUID | None, resume: UUID | None) -> None:
    """What there is to do with campaigns that were started before."""
    if stop is not None:
        show_progress(session, asyncio.run(_stop(settings, stop, who)))
    elif resume is not None:
        show_progress(session, asyncio.run(_resume(settings, resume, who)))
    else:
        show_campaigns(session, asyncio.run(_list(settings)))


def _redrive_many(
    session: Session, settings: Settings, chosen: Filter, terms: Terms, who: Person, *, yes: bool
) -> None:
    chosen.require_choice()
    if not yes:
        groups = asyncio.run(_preview(settings, chosen))
        if not session.json:
            show_groups(groups, as_json=False)
        confirm(f"Redrive {groups.letters} dead letters at {terms.rate:g} a second?", yes=False)
    show_progress(session, asyncio.run(_run(settings, chosen, terms, who)))


def _redrive_each(session: Session, settings: Settings, ids: tuple[int, ...], who: Person) -> None:
    """One by one, each refusal told; the exit code is that of the first one."""
    redriven, refused = asyncio.run(_each(settings, ids, who))
    if session.json:
        show_json({"redriven": redriven, "refused": {str(letter): str(error) for letter, error in refused.items()}})
    else:
        show_text(f"{len(redriven)} redriven: {', '.join(map(str, redriven)) or 'none'}")
        for error in refused.values():
            show_error(str(error))
    if refused:
        unknown = all(isinstance(error, UnknownId) for error in refused.values())
        raise typer.Exit(Exit.NO_SUCH_ID if unknown else Exit.REFUSED)


def _redrive_edited(session: Session, settings: Settings, chosen: Filter, file: Path, who: Person) -> None:
    if chosen.ids is None or len(chosen.ids) != 1 or chosen != Filter(ids=chosen.ids):
        raise typer.BadParameter("it goes with exactly one --id and no other condition", param_hint="--edit")
    (letter,) = chosen.ids
    text = sys.stdin.read() if str(file) == "-" else _read(file)
    app = application_of(settings)

    async def redrive() -> None:
        async with open_ledger(settings, "redrive") as ledger:
            row = await show_letter(ledger, letter)
            await Redrive(ledger).redrive(letter, who, edit=edit_payload(text, row["consumer"], app.handlers))

    asyncio.run(redrive())
    if session.json:
        show_json({"redriven": [letter], "edited": True})
    else:
        show_text(f"letter {letter} redriven with the edited payload; its event keeps the original")


async def _run(settings: Settings, chosen: Filter, terms: Terms, who: Person) -> Progress:
    async with open_ledger(settings, "redrive", connections=_TRANSACTIONS) as ledger:
        runner = CampaignRunner(ledger, transactions=_TRANSACTIONS)
        campaign = await Campaigns(ledger).start(chosen, terms, who, runner=runner.id)
        return await _drive(ledger, runner, campaign.id, who)


async def _resume(settings: Settings, campaign: UUID, who: Person) -> Progress:
    async with open_ledger(settings, "redrive", connections=_TRANSACTIONS) as ledger:
        await Campaigns(ledger).resume(campaign, who)
        return await _drive(ledger, CampaignRunner(ledger, transactions=_TRANSACTIONS), campaign, who)


async def _drive(ledger: Ledger, runner: CampaignRunner, campaign: UUID, who: Person) -> Progress:
    with shown() as show:
        return await drive(ledger, runner, campaign, Person(who.name, "interrupted"), show)


async def _stop(settings: Settings, campaign: UUID, who: Person) -> Progress:
    async with open_ledger(settings, "redrive") as ledger:
        await Campaigns(ledger).stop(campaign, who)
        return await Campaigns(ledger).read(campaign)


async def _list(settings: Settings) -> list[Progress]:
    async with open_ledger(settings, "redrive") as ledger:
        return await Campaigns(ledger).list()


async def _preview(settings: Settings, chosen: Filter) -> Groups:
    async with open_ledger(settings, "redrive") as ledger:
        return await group_letters(ledger, chosen)


async def _each(settings: Settings, ids: tuple[int, ...], who: Person) -> tuple[list[int], dict[int, Exception]]:
    redriven: list[int] = []
    refused: dict[int, Exception] = {}
    async with open_ledger(settings, "redrive") as ledger:
        for letter in ids:
            try:
                await Redrive(ledger).redrive(letter, who)
                redriven.append(letter)
            except (Refused, UnknownId) as error:
                refused[letter] = error
    return redriven, refused


def _require_alone(chosen: Filter, edit: Path | None, *, asked: list[bool]) -> None:
    if sum(asked) > 1 or chosen != Filter() or edit is not None:
        raise typer.BadParameter(
            "they stand alone: without conditions, and without each other", param_hint="--list, --stop, --resume"
        )


def _needed(why: str | None) -> str:
    if why is None or not why.strip():
        raise typer.BadParameter("say why: whoever looks at it later must know", param_hint="--why")
    return why


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise typer.BadParameter(f"{file} cannot be read: {error}", param_hint="--edit") from error
