"""Jobs as the engine has them: by queue, state and name, page by page; and what is done to one, to a selection, or to all that fit."""

from starlette.exceptions import HTTPException
from starlette.responses import Response

from homing.dashboard.lookout import Seen
from homing.dashboard.visit import Visit, page
from homing.errors import Refused
from homing.operations.jobs import STATES, Choice, JobList, list_jobs
from homing.queue.browse import JobState

ON_A_PAGE = 50


async def show_jobs(visit: Visit) -> Response:
    """A page of jobs that fit the address."""
    choice = read_choice(visit)
    found = await find(visit, choice, visit.query.text("after", most=600))
    return visit.page(
        "jobs.html",
        found=found,
        choice=choice,
        states=STATES,
        counts=counts_of(visit.desk.lookout.seen(), choice.queue),
        queues=queue_names(visit.desk.lookout.seen()),
        given=given(choice),
        command_line=visit.command("jobs", "list", *options(choice)),
    )


async def find(visit: Visit, choice: Choice, after: str | None) -> JobList:
    """A page of jobs. With a name that is rare it may be short or empty and not the last: it looks at a bounded number."""
    try:
        return await list_jobs(visit.ledger, visit.engine, choice, after=after, most=ON_A_PAGE)
    except Refused as error:
        raise HTTPException(400, str(error)) from error


def read_choice(visit: Visit) -> Choice:
    """Which jobs the address asks for."""
    return Choice(
        queue=visit.query.text("queue", most=200),
        state=visit.query.choice("state", JobState),
        name=visit.query.text("name", most=200),
    )


def given(choice: Choice) -> dict[str, str]:
    """The choice as an address carries it. Pure."""
    values = {"queue": choice.queue, "state": choice.state.value if choice.state else None, "name": choice.name}
    return {name: value for name, value in values.items() if value is not None}


def options(choice: Choice) -> list[str]:
    """The choice as a command takes it. Pure."""
    return [word for name, value in given(choice).items() for word in (f"--{name}", value)]


def queue_names(seen: Seen) -> list[str]:
    """The queues to choose from, as they were seen last. Pure."""
    return [] if seen.status is None else [queue.queue for queue in seen.status.overview.queues]


def counts_of(seen: Seen, queue: str | None) -> dict[JobState, int]:
    """How many jobs were in each state at the last look, of one queue or of all. Pure."""
    counts = dict.fromkeys(STATES, 0)
    for each in () if seen.status is None else seen.status.overview.queues:
        if each.counts is not None and queue in (None, each.queue):
            for state in STATES:
                counts[state] += getattr(each.counts, state.name.lower())
    return counts


ROUTES = (page("/jobs", show_jobs),)
