"""`homing queues drain|clean|obliterate`: what takes jobs out of the engine. Each asks, and says that open deliveries come back."""

import sys
from enum import Enum
from typing import Annotated

import typer

from homing.cli.acting import confirm, person
from homing.cli.engines import run_on_both
from homing.cli.job_options import WhyOption, YesOption
from homing.cli.output import show_json, show_text
from homing.cli.session import Session, session_of
from homing.durations import parse_duration
from homing.errors import Refused
from homing.harmless import clean_line
from homing.ledger.ledger import Ledger
from homing.operations.queues import QueueLine, clean, drain, obliterate, read_queue, waiting_jobs
from homing.queue.browse import JobState, SteeredEngine

Name = Annotated[str, typer.Argument(help="The name of the queue.", metavar="QUEUE")]

_COME_BACK = "jobs of open deliveries come back with the next look, `homing jobs cancel` ends one for good"


class Finished(Enum):
    """The states that can be cleaned."""

    COMPLETED = "completed"
    FAILED = "failed"


def drain_verb(
    context: typer.Context,
    queue: Name,
    *,
    delayed: Annotated[bool, typer.Option("--delayed", help="Delayed jobs too.")] = False,
    why: WhyOption = None,
    yes: YesOption = False,
) -> None:
    """Remove the jobs that wait. Only jobs without a delivery are gone for good: those of open deliveries come back."""
    session = session_of(context)
    line = _look(session, "queues drain", queue)
    number = waiting_jobs(line.counts, delayed=delayed)
    confirm(f"Remove {number:,} waiting jobs of queue {clean_line(queue)}? {_COME_BACK.capitalize()}.", yes=yes)
    who = person(why)

    async def act(ledger: Ledger, engine: SteeredEngine) -> int:
        return await drain(ledger, engine, queue, who, delayed=delayed)

    _tell(session, queue, run_on_both(session, "queues drain", act, doing=f"removing {number:,} jobs"))


def clean_verb(
    context: typer.Context,
    queue: Name,
    *,
    state: Annotated[Finished, typer.Option("--state", help="Which jobs.")],
    older_than: Annotated[str, typer.Option("--older-than", help="Ended longer ago.", metavar="DURATION")],
    limit: Annotated[int, typer.Option("--limit", help="At most so many.", min=1, metavar="N")] = 100_000,
    why: WhyOption = None,
    yes: YesOption = False,
) -> None:
    """Remove finished jobs, the oldest first. Dead letters and what the ledger knows stay; a failed job can be retried no more."""
    session = session_of(context)
    seconds = _seconds(older_than)
    _look(session, "queues clean", queue)
    question = f"Remove {state.value} jobs of queue {clean_line(queue)} that ended more than {older_than} ago?"
    confirm(question, yes=yes)
    who = person(why)

    async def act(ledger: Ledger, engine: SteeredEngine) -> int:
        return await clean(ledger, engine, queue, JobState(state.value), who, older_than_seconds=seconds, most=limit)

    _tell(session, queue, run_on_both(session, "queues clean", act, doing="removing jobs"))


def obliterate_verb(
    context: typer.Context,
    queue: Name,
    *,
    again: Annotated[
        str | None, typer.Option("--confirm", help="The name of the queue once more, where nobody can be asked.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Also while jobs of it run.")] = False,
    why: WhyOption = None,
    yes: YesOption = False,
) -> None:
    """Remove a queue from the engine with all jobs, finished ones too. It stays paused; jobs of open deliveries come back in it."""
    session = session_of(context)
    line = _look(session, "queues obliterate", queue)
    if line.counts.active and not force:
        raise Refused(f"{line.counts.active} jobs of queue {queue} run: pause it and wait, or say --force")
    confirm(f"Remove everything in queue {clean_line(queue)}? It stays paused. {_COME_BACK.capitalize()}.", yes=yes)
    _name_again(queue, again)
    who = person(why)

    async def act(ledger: Ledger, engine: SteeredEngine) -> int:
        return await obliterate(ledger, engine, queue, who, force=force)

    _tell(session, queue, run_on_both(session, "queues obliterate", act, doing="removing everything"))
    if not session.json:
        show_text(f"the queue is paused: `homing resume {clean_line(queue)}` lets it run")


def _look(session: Session, verb: str, queue: str) -> QueueLine:
    async def read(ledger: Ledger, engine: SteeredEngine) -> QueueLine:
        return await read_queue(ledger, engine, queue)

    return run_on_both(session, verb, read)


def _name_again(queue: str, again: str | None) -> None:
    """A wrong queue is one slip of the hand away: its name must be typed a second time."""
    if again is None and sys.stdin.isatty():
        again = typer.prompt("The name of the queue, to be sure", err=True)
    if again != queue:
        raise Refused(f"nothing was removed: say --confirm {clean_line(queue)} to mean it")


def _seconds(text: str) -> float:
    try:
        return parse_duration(text).total_seconds()
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--older-than") from error


def _tell(session: Session, queue: str, removed: int) -> None:
    if session.json:
        show_json({"queue": queue, "removed": removed})
    else:
        show_text(f"{removed:,} jobs of {clean_line(queue)} removed")
