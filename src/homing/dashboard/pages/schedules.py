"""Schedules: what the clock will do next, what came of the last time, and the deeds that steer it."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from starlette.exceptions import HTTPException
from starlette.responses import Response

from homing.dashboard.pages.jobs import queue_names
from homing.dashboard.visit import Visit, deed, page
from homing.ledger.actions import Person
from homing.operations.schedule_deeds import (
    find_schedule,
    pause_schedule,
    remove_schedule,
    resume_schedule,
    run_schedule,
)
from homing.operations.schedules import ScheduleLine, list_schedules

ON_A_PAGE = 50
LONGEST_NAME = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Verb:
    """A deed as a page offers it; `done` is what is said afterwards."""

    button: str
    action: str
    sentence: str
    done: str
    danger: bool = False


VERBS: Mapping[str, Verb] = {
    "run": Verb(
        button="Run now",
        action="run",
        sentence="Its job runs now, once more than by the clock. Its next times stay as they are.",
        done="runs now",
    ),
    "pause": Verb(
        button="Pause",
        action="pause",
        sentence="It makes no job until somebody resumes it, whatever code declares. One that is due already still runs.",
        done="is paused: the clock makes nothing of it until somebody resumes it",
    ),
    "resume": Verb(
        button="Resume",
        action="resume",
        sentence="It makes jobs again, from its next time on. What the pause left out stays out.",
        done="makes jobs again",
    ),
    "remove": Verb(
        button="Remove",
        action="remove",
        sentence="It is forgotten, with the job whose time has not come. One that running code declares cannot be removed.",
        done="is removed",
        danger=True,
    ),
}


async def show_schedules(visit: Visit) -> Response:
    """Every schedule that is written down, by queue and name."""
    queue, name = visit.query.text("queue", most=200), visit.query.text("name", most=LONGEST_NAME)
    after, after_name = visit.query.text("after", most=200), visit.query.text("after_name", most=LONGEST_NAME)
    found = await list_schedules(
        visit.ledger,
        visit.engine,
        queue=queue,
        name=name,
        after=None if after is None else (after, after_name or ""),
        most=ON_A_PAGE,
    )
    return visit.page(
        "schedules.html",
        found=found,
        clocks={(line.queue, line.name): clock_of(line) for line in found.schedules},
        verbs=VERBS,
        offered=offered,
        queue=queue,
        queues=queue_names(visit.desk.lookout.seen()),
        unasked=any(line.held is None for line in found.schedules),
        command_line=visit.command("schedules", "list", *(["--queue", queue] if queue else [])),
    )


async def do(visit: Visit) -> Response:
    """Ask first; do it when the form says so."""
    name = visit.part("deed")
    verb = VERBS.get(name)
    if verb is None:
        raise HTTPException(404)
    visit.person(None).require(verb.action)
    queue, schedule = visit.form.text("queue", most=200), visit.form.text("name", most=LONGEST_NAME)
    if queue is None or schedule is None:
        raise HTTPException(400, "queue, name: say which schedule")
    line = await find_schedule(visit.ledger, visit.engine, schedule, queue=queue)
    if visit.form.raw("confirmed") == "yes":
        return await _act(visit, name, verb, line)
    return _ask(visit, name, verb, line)


def _ask(visit: Visit, name: str, verb: Verb, line: ScheduleLine) -> Response:
    return visit.page(
        "confirm.html",
        title=f"{verb.button}?",
        count="1 schedule",
        sentence=verb.sentence,
        button=verb.button,
        danger=verb.danger,
        action=visit.url(f"/schedules/{name}"),
        fields=[("queue", line.queue), ("name", line.name), ("confirmed", "yes")],
        back=visit.url("/schedules"),
        subjects=[f"{line.name} of queue {line.queue}, {line.when}"],
        command_line=visit.command("schedules", name, line.name, "--queue", line.queue),
    )


async def _act(visit: Visit, name: str, verb: Verb, line: ScheduleLine) -> Response:
    if name == "run":
        job_id = await run_schedule(visit.ledger, visit.engine, line, visit.reasoned())
        return visit.go_to(visit.job(job_id, line.queue), f"{line.name} {verb.done}")
    await STEERING[name](visit, line, visit.reasoned())
    return visit.go("/schedules", f"{line.name} {verb.done}", queue=line.queue)


async def _pause(visit: Visit, line: ScheduleLine, person: Person) -> None:
    await pause_schedule(visit.ledger, visit.engine, line, person)


async def _resume(visit: Visit, line: ScheduleLine, person: Person) -> None:
    await resume_schedule(visit.ledger, visit.engine, line, person)


async def _remove(visit: Visit, line: ScheduleLine, person: Person) -> None:
    await remove_schedule(visit.ledger, visit.engine, line, person)


STEERING: Mapping[str, Callable[[Visit, ScheduleLine, Person], Awaitable[None]]] = {
    "pause": _pause,
    "resume": _resume,
    "remove": _remove,
}


def offered(line: ScheduleLine) -> list[str]:
    """The deeds that may help now; the operations decide again. Pure."""
    found = ["run", "pause" if line.paused_at is None else "resume"]
    return [*found, "remove"] if not line.by_code or line.orphaned else found


def clock_of(line: ScheduleLine) -> list[str]:
    """Its next times as its own clock shows them; none for an interval, or a pattern that only its maker can read. Pure."""
    if line.schedule.cron is None:
        return []
    try:
        return [f"{line.local(due):%a %-d %b %H:%M:%S}" for due in line.upcoming]
    except ValueError:
        return []


ROUTES = (page("/schedules", show_schedules), deed("/schedules/{deed}", do))
