"""`homing schedules`: what runs by the clock, when it runs next, and what came of it; run now, paused, removed."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Protocol

import typer

from homing.cli.acting import confirm, person
from homing.cli.engines import run_on_both
from homing.cli.job_options import WhyOption, YesOption
from homing.cli.output import show_json, show_list, show_text
from homing.cli.session import session_of
from homing.cli.words import moment, name
from homing.harmless import clean_line
from homing.ledger.actions import Person
from homing.ledger.ledger import Ledger
from homing.operations.schedule_deeds import (
    find_schedule,
    pause_schedule,
    remove_schedule,
    resume_schedule,
    run_schedule,
)
from homing.operations.schedules import MOST_LISTED, ScheduleLine, SchedulePage, list_schedules
from homing.queue.browse import SteeredEngine

schedules_verbs = typer.Typer(
    no_args_is_help=True, help="Schedules: what runs by the clock, and when.", rich_markup_mode=None
)

_COLUMNS = ("schedule", "queue", "when", "state", "next", "last", "outcome")

NameArgument = Annotated[str, typer.Argument(help="The name of the schedule.", metavar="SCHEDULE")]
QueueOption = Annotated[str | None, typer.Option("--queue", help="In this queue.")]
MostOption = Annotated[int, typer.Option("--limit", help="At most so many.", min=1, max=100_000, metavar="N")]


class Deed(Protocol):
    """What can be done to a schedule; its name begins with the verb."""

    __name__: str

    async def __call__(
        self, ledger: Ledger, engine: SteeredEngine, line: ScheduleLine, person: Person, /
    ) -> object: ...


@schedules_verbs.command("list")
def list_verb(context: typer.Context, *, queue: QueueOption = None, most: MostOption = 1_000) -> None:
    """List schedules: when each fires, its next tick, and what came of its last one. Times are in UTC."""
    session = session_of(context)

    async def read(ledger: Ledger, engine: SteeredEngine) -> list[ScheduleLine]:
        lines: list[ScheduleLine] = []
        page: SchedulePage | None = None
        while len(lines) < most and (page is None or page.after is not None):
            after = None if page is None else page.after
            size = min(MOST_LISTED, most - len(lines))
            page = await list_schedules(ledger, engine, queue=queue, after=after, most=size)
            lines += page.schedules
        return lines

    lines = run_on_both(session, "schedules list", read)
    if session.json:
        show_json([_as_json(line) for line in lines])
    else:
        show_list(_COLUMNS, [_cells(line) for line in lines])


@schedules_verbs.command("next")
def next_verb(context: typer.Context, schedule: NameArgument, *, queue: QueueOption = None) -> None:
    """Show one schedule with its next five ticks, in UTC and in its own zone."""
    session = session_of(context)

    async def read(ledger: Ledger, engine: SteeredEngine) -> ScheduleLine:
        return await find_schedule(ledger, engine, schedule, queue=queue)

    line = run_on_both(session, "schedules next", read)
    if session.json:
        show_json(_as_json(line))
        return
    show_text(f"{name(line.name)} of queue {name(line.queue)}: {clean_line(line.when)}, {_state(line)}")
    for due in line.upcoming:
        show_text(f"  {moment(due)} UTC{_local(due, line)}")


@schedules_verbs.command("run")
def run_verb(
    context: typer.Context, schedule: NameArgument, *, queue: QueueOption = None, why: WhyOption = None
) -> None:
    """Run a schedule's job now, once more than by the clock; its ticks stay as they are."""
    _act(context, run_schedule, "runs now", schedule=schedule, queue=queue, why=why)


@schedules_verbs.command("pause")
def pause_verb(
    context: typer.Context, schedule: NameArgument, *, queue: QueueOption = None, why: WhyOption = None
) -> None:
    """Make no tick until somebody resumes it, whatever code declares and whatever becomes of the engine's data. A tick that is due runs."""
    _act(context, pause_schedule, "is paused", schedule=schedule, queue=queue, why=why)


@schedules_verbs.command("resume")
def resume_verb(
    context: typer.Context, schedule: NameArgument, *, queue: QueueOption = None, why: WhyOption = None
) -> None:
    """Make ticks again, from the next one on; those that the pause left out stay out."""
    _act(context, resume_schedule, "is resumed", schedule=schedule, queue=queue, why=why)


@schedules_verbs.command("remove")
def remove_verb(
    context: typer.Context,
    schedule: NameArgument,
    *,
    queue: QueueOption = None,
    why: WhyOption = None,
    yes: YesOption = False,
) -> None:
    """Forget a schedule that no code declares any more, or that was made in the engine. What code declares is paused instead."""
    confirm(f"Remove the schedule {name(schedule)}?", yes=yes)
    _act(context, remove_schedule, "is removed", schedule=schedule, queue=queue, why=why)


def _act(context: typer.Context, deed: Deed, told: str, *, schedule: str, queue: str | None, why: str | None) -> None:
    session, who, verb = session_of(context), person(why), deed.__name__.removesuffix("_schedule")

    async def act(ledger: Ledger, engine: SteeredEngine) -> tuple[ScheduleLine, object]:
        line = await find_schedule(ledger, engine, schedule, queue=queue)
        return line, await deed(ledger, engine, line, who)

    line, answer = run_on_both(session, f"schedules {verb}", act)
    if session.json:
        show_json({"schedule": line.name, "queue": line.queue, "done": verb, "job": answer})
        return
    show_text(
        f"schedule {name(line.name)} of queue {name(line.queue)} {told}{'' if answer is None else f': job {answer}'}"
    )


def _cells(line: ScheduleLine) -> Sequence[str]:
    last = line.last
    return (
        name(line.name),
        name(line.queue),
        clean_line(line.when, 60),
        _state(line),
        moment(line.upcoming[0]) if line.upcoming else "",
        "" if last is None else moment(last.due_at),
        "" if last is None else last.state.value,
    )


def _state(line: ScheduleLine) -> str:
    """What there is to say of it, in a few words; nothing special is said of one that just runs."""
    words = [] if line.by_code else ["made in the engine"]
    if line.orphaned:
        words.append("orphaned")
    if line.paused_at is not None:
        words.append(f"paused since {moment(line.paused_at)}")
    elif line.is_over:
        words.append("over")
    elif line.held is False:
        words.append("not in the engine yet")
    elif line.held is None:
        words.append("the engine does not answer")
    return ", ".join(words) or "on"


def _local(due: datetime, line: ScheduleLine) -> str:
    try:
        local = line.local(due)
    except ValueError:
        return ""
    return (
        "" if line.schedule.cron is None or line.schedule.zone == "UTC" else f", {local:%a %Y-%m-%d %H:%M:%S %Z} there"
    )


def _as_json(line: ScheduleLine) -> Mapping[str, Any]:
    schedule, last = line.schedule, line.last
    return {
        "schedule": line.name,
        "queue": line.queue,
        "job": schedule.job_name,
        "cron": schedule.cron,
        "zone": schedule.zone if schedule.cron else None,
        "every_seconds": None if schedule.every_ms is None else schedule.every_ms / 1000,
        "limit": schedule.limit,
        "ticks": line.ticks,
        "source": "code" if line.by_code else "engine",
        "orphaned": line.orphaned,
        "paused_at": line.paused_at,
        "over": line.is_over,
        "held": line.held,
        "next": [due.isoformat() for due in line.upcoming],
        "last": None
        if last is None
        else {
            "due_at": last.due_at.isoformat(),
            "job": last.job_id,
            "outcome": last.state.value,
            "reason": last.reason,
        },
    }
