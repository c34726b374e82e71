"""`homing queues`: queues with what holds them back, paused, resumed and bounded."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Annotated, TypeVar

import typer

from homing.cli.acting import person
from homing.cli.engines import run_on_both
from homing.cli.job_options import WhyOption
from homing.cli.output import show_json, show_list, show_text
from homing.cli.queue_removals import clean_verb, drain_verb, obliterate_verb
from homing.cli.session import session_of
from homing.durations import describe_seconds, parse_duration
from homing.harmless import clean_line
from homing.ledger.actions import Person
from homing.ledger.ledger import Ledger
from homing.operations.queues import QueueLine, limit, list_queues, pause, resume
from homing.queue.browse import SteeredEngine
from homing.queue.port import Limit, QueueSettings, Unsaid

queues_verbs = typer.Typer(
    no_args_is_help=True, help="Queues: look at them, pause them, bound them, empty them.", rich_markup_mode=None
)

T = TypeVar("T")

Names = Annotated[list[str], typer.Argument(help="Names of queues.", metavar="QUEUE…")]

_COLUMNS = ("queue", "waiting", "active", "delayed", "failed", "completed", "workers", "held back by")


@queues_verbs.command("list")
def list_verb(context: typer.Context) -> None:
    """List all queues: jobs by state, live workers, and what holds them back."""
    session = session_of(context)
    lines = run_on_both(session, "queues list", list_queues)
    if session.json:
        show_json([_as_json(line) for line in lines])
        return
    show_list(_COLUMNS, [_cells(line) for line in lines])


def pause_verb(context: typer.Context, queues: Names, *, why: WhyOption = None) -> None:
    """Let no worker start a job of these queues. It holds until somebody resumes them, whatever becomes of the engine's data."""
    _steer(context, "pause", pause, queues, person(why))


def resume_verb(context: typer.Context, queues: Names, *, why: WhyOption = None) -> None:
    """Let workers start jobs of these queues again."""
    _steer(context, "resume", resume, queues, person(why))


@queues_verbs.command("limit")
def limit_verb(
    context: typer.Context,
    queue: Annotated[str, typer.Argument(help="The name of the queue.", metavar="QUEUE")],
    *,
    starts: Annotated[int | None, typer.Option("--jobs", help="So many starts…", min=1, metavar="N")] = None,
    per: Annotated[str, typer.Option("--per", help="…in so long.", metavar="DURATION")] = "1s",
    concurrency: Annotated[
        int | None, typer.Option("--concurrency", help="So many at once.", min=1, metavar="N")
    ] = None,
    no_limit: Annotated[bool, typer.Option("--no-limit", help="As many starts as come.")] = False,
    no_concurrency: Annotated[bool, typer.Option("--no-concurrency", help="As many at once as workers take.")] = False,
    why: WhyOption = None,
) -> None:
    """Bound a queue over all its workers, Node's too. It holds until the code declares something new for the queue."""
    session = session_of(context)
    settings = QueueSettings(
        limit=_said(Limit(starts, _seconds(per)) if starts else None, no_limit, "--jobs", "--no-limit"),
        concurrency=_said(concurrency, no_concurrency, "--concurrency", "--no-concurrency"),
    )
    if isinstance(settings.limit, Unsaid) and isinstance(settings.concurrency, Unsaid):
        raise typer.BadParameter("say --jobs N, --concurrency N, --no-limit or --no-concurrency")
    who = person(why)

    async def act(ledger: Ledger, engine: SteeredEngine) -> None:
        await limit(ledger, engine, queue, settings, who)

    run_on_both(session, "queues limit", act)
    _tell([queue], "limit", as_json=session.json)


queues_verbs.command("pause")(pause_verb)
queues_verbs.command("resume")(resume_verb)
queues_verbs.command("drain")(drain_verb)
queues_verbs.command("clean")(clean_verb)
queues_verbs.command("obliterate")(obliterate_verb)


def _steer(
    context: typer.Context,
    verb: str,
    deed: Callable[[Ledger, SteeredEngine, str, Person], Awaitable[None]],
    queues: Sequence[str],
    who: Person,
) -> None:
    session = session_of(context)

    async def act(ledger: Ledger, engine: SteeredEngine) -> None:
        for queue in dict.fromkeys(queues):
            await deed(ledger, engine, queue, who)

    run_on_both(session, f"queues {verb}", act)
    _tell(queues, verb, as_json=session.json)


_DONE = {"pause": "paused", "resume": "resumed", "limit": "bounded"}


def _tell(queues: Sequence[str], verb: str, *, as_json: bool) -> None:
    if as_json:
        show_json({_DONE[verb]: list(queues)})
        return
    for queue in queues:
        show_text(f"{clean_line(queue)} is {_DONE[verb]}")


def _said(value: T | None, remove: bool, option: str, removal: str) -> T | Unsaid | None:  # noqa: FBT001
    if value is not None and remove:
        raise typer.BadParameter(f"say {option} or {removal}, not both", param_hint=removal)
    return value if value is not None else None if remove else Unsaid.UNSAID


def _seconds(text: str) -> float:
    try:
        return parse_duration(text).total_seconds()
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--per") from error


def _as_json(line: QueueLine) -> Mapping[str, object]:
    counts, terms = line.counts, line.terms
    return {
        "queue": line.queue,
        "waiting": counts.waiting,
        "prioritized": counts.prioritized,
        "active": counts.active,
        "delayed": counts.delayed,
        "waiting_children": counts.waiting_children,
        "failed": counts.failed,
        "completed": counts.completed,
        "workers": line.workers,
        "paused": terms.paused,
        "concurrency": terms.concurrency,
        "limit": None if terms.limit is None else {"jobs": terms.limit.jobs, "seconds": terms.limit.seconds},
        "throttled_seconds": terms.throttled_seconds,
        "parked": [
            {"job": one.kind.job, "consumer": one.kind.consumer, "version": one.kind.version, "jobs": one.count}
            for one in line.parked
        ],
    }


def _cells(line: QueueLine) -> Sequence[str]:
    counts = line.counts
    numbers = (counts.waiting + counts.prioritized, counts.active, counts.delayed, counts.failed, counts.completed)
    return (clean_line(line.queue, 60), *map("{:,}".format, numbers), str(line.workers), ", ".join(_held_back(line)))


def _held_back(line: QueueLine) -> Sequence[str]:
    """What keeps jobs from starting, in a few words each; nothing for a queue that just works."""
    counts, terms, words = line.counts, line.terms, []
    if terms.paused:
        words.append("paused")
    if terms.throttled_seconds:
        words.append(f"throttled for {describe_seconds(terms.throttled_seconds)}")
    if terms.limit is not None:
        words.append(f"limit {terms.limit.jobs} in {describe_seconds(terms.limit.seconds)}")
    if terms.concurrency is not None:
        words.append(f"concurrency {terms.concurrency}{' (full)' if counts.active >= terms.concurrency else ''}")
    if not line.workers and counts.waiting + counts.prioritized:
        words.append("no worker")
    words += [f"{one.count:,} parked {clean_line(one.kind.job, 40)}" for one in line.parked]
    return words
