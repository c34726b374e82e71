"""`homing jobs retry|promote|remove`: what the engine does to single jobs, by their ids or to all of a queue or name."""

import typer

from homing.cli.acting import confirm, person
from homing.cli.engines import run_on_both
from homing.cli.job_options import (
    DryRunOption,
    Ids,
    MostOption,
    NameOption,
    QueueOption,
    StateOption,
    WhyOption,
    YesOption,
    choose_jobs,
    read_job_ids,
)
from homing.cli.job_report import exit_of, show_acted
from homing.cli.output import show_json, show_text
from homing.cli.session import Session, session_of
from homing.ids import JobId
from homing.ledger.actions import Person
from homing.ledger.ledger import Ledger
from homing.operations.jobs import Acted, Choice, Deed, act_on_jobs, gather_ids
from homing.queue.browse import JobState, SteeredEngine

_QUESTIONS = {
    Deed.RETRY: "Let {number} failed jobs run again?",
    Deed.PROMOTE: "Let {number} delayed jobs run now?",
    Deed.REMOVE: "Remove {number} jobs? Those whose deliveries are open come back with the next look: `homing jobs cancel` ends one for good.",
}


def retry_verb(
    context: typer.Context,
    ids: Ids = None,
    *,
    queue: QueueOption = None,
    name: NameOption = None,
    limit: MostOption = 10_000,
    dry_run: DryRunOption = False,
    why: WhyOption = None,
    yes: YesOption = False,
) -> None:
    """Let failed jobs run again, with all their attempts. A dead delivery is opened again when its job starts; its letter is closed."""
    chosen = read_job_ids(ids)
    choice = choose_jobs(chosen, queue, JobState.FAILED, name)
    _act(
        session_of(context), Deed.RETRY, chosen, choice, queue=queue, most=limit, dry=dry_run, who=person(why), yes=yes
    )


def promote_verb(
    context: typer.Context,
    ids: Ids = None,
    *,
    queue: QueueOption = None,
    name: NameOption = None,
    limit: MostOption = 10_000,
    dry_run: DryRunOption = False,
    why: WhyOption = None,
    yes: YesOption = False,
) -> None:
    """Let delayed jobs run now: those that were snoozed, and those that wait for their next attempt."""
    chosen = read_job_ids(ids)
    choice = choose_jobs(chosen, queue, JobState.DELAYED, name)
    _act(
        session_of(context),
        Deed.PROMOTE,
        chosen,
        choice,
        queue=queue,
        most=limit,
        dry=dry_run,
        who=person(why),
        yes=yes,
    )


def remove_verb(
    context: typer.Context,
    ids: Ids = None,
    *,
    queue: QueueOption = None,
    state: StateOption = None,
    name: NameOption = None,
    limit: MostOption = 10_000,
    dry_run: DryRunOption = False,
    why: WhyOption = None,
    yes: YesOption = False,
) -> None:
    """Take jobs out of the engine that nobody runs. That of an open delivery comes back with the next look; `cancel` is for good."""
    chosen = read_job_ids(ids)
    choice = choose_jobs(chosen, queue, state, name)
    if choice is not None and state is None:
        raise typer.BadParameter("say which jobs of them: --state failed, for instance", param_hint="--state")
    _act(
        session_of(context), Deed.REMOVE, chosen, choice, queue=queue, most=limit, dry=dry_run, who=person(why), yes=yes
    )


def _act(
    session: Session,
    deed: Deed,
    chosen: list[str],
    choice: Choice | None,
    *,
    queue: str | None,
    most: int,
    dry: bool,
    who: Person,
    yes: bool,
) -> None:
    """Ids from the line are asked about where they are lost; what an option chooses is counted first, and asked about always."""
    verb = f"jobs {deed.value}"
    ids = [JobId(job_id) for job_id in chosen]
    if choice is not None:
        found = choice

        async def gather(ledger: Ledger, engine: SteeredEngine) -> list[JobId]:
            return await gather_ids(ledger, engine, found, most)

        ids = run_on_both(session, verb, gather, doing="looking for jobs")
    if dry or not ids:
        _tell(session, len(ids), cut=choice is not None and len(ids) == most)
        return
    if choice is not None or deed is Deed.REMOVE:
        confirm(_QUESTIONS[deed].format(number=f"{len(ids):,}"), yes=yes)

    async def act(ledger: Ledger, engine: SteeredEngine) -> list[Acted]:
        return await act_on_jobs(ledger, engine, deed, ids, person=who, queue=queue)

    acted = run_on_both(session, verb, act, doing=f"{len(ids):,} jobs")
    show_acted(acted, as_json=session.json)
    if code := exit_of(acted):
        raise typer.Exit(code)


def _tell(session: Session, number: int, *, cut: bool) -> None:
    if session.json:
        show_json({"would": number, "more": cut})
    else:
        show_text(f"{number:,} jobs{' or more, see --limit' if cut else ''}; nothing was changed")
