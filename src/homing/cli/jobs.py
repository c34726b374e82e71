"""`homing jobs`: what a person does to single jobs."""

import sys
from collections.abc import Sequence
from typing import Annotated, Any, Protocol

import typer

from homing.cli.acting import confirm, person
from homing.cli.exits import Exit
from homing.cli.features import feature
from homing.cli.output import show_json, show_table
from homing.cli.session import session_of
from homing.config.settings import Settings
from homing.deadletters.report import clean_line
from homing.ledger.actions import Person

jobs_verbs = typer.Typer(no_args_is_help=True, help="Single jobs, by their ids.", rich_markup_mode=None)

_LONGEST_ID = 300


class RunCancel(Protocol):
    """`homing.operations.cancel.run_cancel`: cancels, and answers for each id, in order."""

    def __call__(self, settings: Settings, prefix: str, job_ids: Sequence[str], person: Person) -> list[Any]: ...


@jobs_verbs.callback()
def jobs() -> None:
    """Single jobs, by their ids."""


@jobs_verbs.command("cancel")
def cancel_verb(
    context: typer.Context,
    ids: Annotated[
        list[str],
        typer.Argument(
            help="Ids as Bull Board shows them, <event>.<generation>.<consumer>; - reads them from standard input."
        ),
    ],
    *,
    why: Annotated[str | None, typer.Option(help="The reason; it is kept with what is done.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Settle deliveries as cancelled and take their jobs out of the queue. One that is only removed in a queue tool comes back."""
    session = session_of(context)
    settings = session.settings()
    app = session.application(settings)
    job_ids = list(dict.fromkeys(sys.stdin.read().split() if ids == ["-"] else ids))
    confirm(f"Cancel {len(job_ids)} deliveries for good?", yes=yes)
    run_cancel: RunCancel = feature("homing.operations.cancel", "run_cancel", verb="jobs cancel", extra="redis")
    answers = run_cancel(settings, app.name, job_ids, person(why))
    if session.json:
        show_json(
            [{"job": each.job_id, "answer": each.answer.name.lower(), "outcome": each.outcome} for each in answers]
        )
    else:
        show_table(("job", "answer"), [(clean_line(each.job_id, _LONGEST_ID), _words(each)) for each in answers])
    if code := exit_of(answers):
        raise typer.Exit(code)


def exit_of(answers: Sequence[Any]) -> Exit | None:
    """The code for a list of answers: unknown ids before those that were not cancelled; `None` when all of them were."""
    if any(each.answer.name == "UNKNOWN" for each in answers):
        return Exit.NO_SUCH_ID
    return None if all(each.answer.is_cancelled for each in answers) else Exit.REFUSED


def _words(cancelled: Any) -> str:
    text: str = cancelled.answer.value
    return text if cancelled.outcome is None else f"{text}: {cancelled.outcome}"
