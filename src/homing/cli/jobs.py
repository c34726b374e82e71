"""`homing jobs`: single jobs are listed, shown, explained and cancelled."""

from collections.abc import Sequence
from typing import Annotated

import typer

from homing.cli.acting import confirm, person
from homing.cli.engines import run_on_both
from homing.cli.exits import Exit
from homing.cli.job_deeds import promote_verb, remove_verb, retry_verb
from homing.cli.job_options import NameOption, QueueOption, StateOption, WhyOption, YesOption, read_job_ids
from homing.cli.job_report import LONGEST_ID, show_explained, show_jobs, show_one
from homing.cli.output import show_json, show_table
from homing.cli.session import session_of
from homing.harmless import clean_line
from homing.ids import JobId
from homing.ledger.ledger import Ledger
from homing.operations.cancel import Answer, Cancelled, cancel
from homing.operations.explaining import Explained, explain_id
from homing.operations.flows import FlowNode, read_flow
from homing.operations.jobs import Choice, JobList, list_jobs, show_job
from homing.queue.browse import ShownJob, SteeredEngine

jobs_verbs = typer.Typer(
    no_args_is_help=True, help="Single jobs: look at them, and give them another turn.", rich_markup_mode=None
)

_CALLS = 25
"""How often a list asks on for a name that is rare: each call looks at a bounded number of jobs."""


@jobs_verbs.callback()
def jobs() -> None:
    """Single jobs: look at them, and give them another turn."""


@jobs_verbs.command("list")
def list_verb(
    context: typer.Context,
    *,
    queue: QueueOption = None,
    state: StateOption = None,
    name: NameOption = None,
    after: Annotated[
        str | None, typer.Option("--after", help="The next page: what the page before said.", metavar="PLACE")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", help="At most so many.", min=1, max=10_000, metavar="N")] = 50,
) -> None:
    """List jobs: what runs, what runs next, and what has ended, the newest of those first."""
    session = session_of(context)
    choice = Choice(queue=queue, state=state, name=name)

    async def read(ledger: Ledger, engine: SteeredEngine) -> JobList:
        found = JobList((), after)
        for _ in range(_CALLS):
            page = await list_jobs(ledger, engine, choice, after=found.after, most=limit - len(found.jobs))
            found = JobList(found.jobs + page.jobs, page.after)
            if page.after is None or len(found.jobs) >= limit:
                break
        return found

    show_jobs(run_on_both(session, "jobs list", read), as_json=session.json)


@jobs_verbs.command("show")
def show_verb(
    context: typer.Context,
    job: Annotated[str, typer.Argument(help="The id of the job.", metavar="ID")],
    *,
    queue: QueueOption = None,
) -> None:
    """Show one job with everything that the engine stores of it, and the tree of the flow that it is in."""
    session = session_of(context)

    async def read(ledger: Ledger, engine: SteeredEngine) -> tuple[str, ShownJob, FlowNode | None]:
        where, shown = await show_job(ledger, engine, JobId(job), queue)
        return where, shown, await read_flow(ledger, engine, JobId(job), where)

    where, shown, tree = run_on_both(session, "jobs show", read)
    show_one(where, shown, tree, as_json=session.json)


@jobs_verbs.command("explain")
def explain_verb(
    context: typer.Context,
    job: Annotated[str, typer.Argument(help="The id of a job, or of an event for all its deliveries.", metavar="ID")],
    *,
    queue: QueueOption = None,
) -> None:
    """Say why a job or an event is not running: what holds it up, since when, and what to do."""
    session = session_of(context)

    async def read(ledger: Ledger, engine: SteeredEngine) -> list[Explained]:
        return await explain_id(ledger, engine, job, queue)

    show_explained(run_on_both(session, "jobs explain", read), as_json=session.json)


@jobs_verbs.command("cancel")
def cancel_verb(
    context: typer.Context,
    ids: Annotated[
        list[str],
        typer.Argument(
            help="Ids as Bull Board shows them, <event>.<generation>.<consumer> for a delivery; - reads them from standard input."
        ),
    ],
    *,
    why: WhyOption = None,
    yes: YesOption = False,
) -> None:
    """Settle deliveries, and other jobs that have not begun, as cancelled, and take their jobs and those of their children out of the queue.

    One that is only removed in a queue tool comes back.
    """
    session = session_of(context)
    job_ids = read_job_ids(ids)
    confirm(f"Cancel {len(job_ids)} jobs for good?", yes=yes)
    who = person(why)

    async def act(ledger: Ledger, engine: SteeredEngine) -> list[Cancelled]:
        return await cancel(ledger, engine, job_ids, who)

    answers = run_on_both(session, "jobs cancel", act)
    if session.json:
        show_json(
            [{"job": each.job_id, "answer": each.answer.name.lower(), "outcome": each.outcome} for each in answers]
        )
    else:
        show_table(("job", "answer"), [(clean_line(each.job_id, LONGEST_ID), _words(each)) for each in answers])
    if code := exit_of(answers):
        raise typer.Exit(code)


def exit_of(answers: Sequence[Cancelled]) -> Exit | None:
    """The code for a list of answers: unknown ids before those that were not cancelled; `None` when all of them were."""
    if any(each.answer is Answer.UNKNOWN for each in answers):
        return Exit.NO_SUCH_ID
    return None if all(each.answer.is_cancelled for each in answers) else Exit.REFUSED


def _words(cancelled: Cancelled) -> str:
    text = cancelled.answer.value
    return text if cancelled.outcome is None else f"{text}: {cancelled.outcome}"


jobs_verbs.command("retry")(retry_verb)
jobs_verbs.command("promote")(promote_verb)
jobs_verbs.command("remove")(remove_verb)
