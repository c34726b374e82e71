"""The arguments that choose jobs, the same for every verb that takes some."""

import sys
from typing import Annotated

import typer

from homing.operations.jobs import Choice
from homing.queue.browse import JobState

Ids = Annotated[
    list[str] | None,
    typer.Argument(
        help="Ids of jobs, as `homing jobs list` shows them; - reads them from standard input.", metavar="ID"
    ),
]
QueueOption = Annotated[str | None, typer.Option("--queue", help="In this queue.")]
NameOption = Annotated[str | None, typer.Option("--name", help="With this job name.")]
StateOption = Annotated[JobState | None, typer.Option("--state", help="In this state.")]
MostOption = Annotated[
    int, typer.Option("--limit", help="At most so many jobs of a queue or name.", min=1, max=100_000, metavar="N")
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Only say how many it would be.")]
WhyOption = Annotated[str | None, typer.Option("--why", help="The reason; it is kept with what is done.")]
YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask.")]


def read_job_ids(ids: list[str] | None) -> list[str]:
    """The ids as given, each once; `-` = one a word from standard input."""
    return list(dict.fromkeys(sys.stdin.read().split() if ids == ["-"] else ids or []))


def choose_jobs(ids: list[str], queue: str | None, state: JobState | None, name: str | None) -> Choice | None:
    """What the options choose where no ids do; anything unclear is a usage error."""
    if ids:
        if name is not None:
            raise typer.BadParameter("say ids or --name, not both", param_hint="--name")
        return None
    if queue is None and name is None:
        raise typer.BadParameter("say ids of jobs, or choose some by --queue or --name")
    return Choice(queue=queue, state=state, name=name)
