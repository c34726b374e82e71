"""Queues: what each holds and what holds it back; paused, resumed and bounded in place, emptied by administrators."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from starlette.exceptions import HTTPException
from starlette.responses import Response

from homing.dashboard import words
from homing.dashboard.lookout import Seen
from homing.dashboard.query import bad
from homing.dashboard.visit import Visit, deed, page
from homing.durations import describe_seconds
from homing.errors import ServerUnavailable
from homing.ledger.actions import Person
from homing.ledger.ledger import Ledger
from homing.operations import queues
from homing.operations.overview import read_queue_names
from homing.operations.queues import QueueLine, list_queues, read_queue, waiting_jobs
from homing.queue.browse import JobState, SteeredEngine
from homing.queue.port import Limit, QueueSettings, Unsaid

MOST_CLEANED = 10_000


async def show_queues(visit: Visit) -> Response:
    """Every queue, with what the engine says of it; their names alone while it is away."""
    lines, error = [], None
    try:
        lines = await list_queues(visit.ledger, visit.engine)
    except ServerUnavailable as unavailable:
        error = str(unavailable)
    names = [] if lines else [row["queue"] for row in await read_queue_names(visit.ledger)]
    return visit.page(
        "queues.html",
        lines=lines,
        names=names,
        error=error,
        held=held_back,
        rates=rates_of(visit.desk.lookout.seen()),
        waiting=visit.desk.lookout.waiting,
        command_line=visit.command("queues", "list"),
    )


async def show_queue(visit: Visit) -> Response:
    """One queue: its jobs by state, what holds it back, and the forms that steer it."""
    name = visit.part("queue")
    line = await read_queue(visit.ledger, visit.engine, name)
    seen = visit.desk.lookout.seen()
    processes = () if seen.status is None else seen.status.overview.processes
    return visit.page(
        "queue.html",
        line=line,
        states=states_of(line),
        held=held_back(line),
        rate=rates_of(seen).get(name, 0.0),
        past=visit.desk.lookout.waiting.get(name, ()),
        serving=[one for one in processes if one.alive and one.role == "worker" and name in one.queues],
        per=describe_seconds(line.terms.limit.seconds).replace(" ", "") if line.terms.limit else "1s",
    )


async def pause(visit: Visit) -> Response:
    """Pause it."""
    return await _steer(visit, queues.pause, "is paused: nothing of it starts until somebody resumes it")


async def resume(visit: Visit) -> Response:
    """Resume it."""
    return await _steer(visit, queues.resume, "runs again")


async def bound(visit: Visit) -> Response:
    """Bound its starts and its concurrency; an empty field lifts the bound."""
    name, form = visit.part("queue"), visit.form
    jobs, concurrency = form.number("jobs"), form.number("concurrency")
    seconds = form.seconds("per")
    if jobs is not None and seconds is None:
        raise bad("per", "", "say in which time so many may start, as in 1s or 1m")
    wanted = QueueSettings(limit=None if jobs is None else Limit(jobs, seconds or 1.0), concurrency=concurrency)
    await queues.limit(visit.ledger, visit.engine, name, wanted, visit.reasoned())
    return visit.go(f"/queues/{name}", f"{name} is bounded: {describe_bounds(wanted)}")


async def remove(visit: Visit) -> Response:
    """Ask first, with the numbers; then empty it."""
    name, verb = visit.part("queue"), visit.part("removal")
    removal = REMOVALS.get(verb)
    if removal is None:
        raise HTTPException(404)
    visit.person(None).require(removal.action)
    if visit.form.raw("confirmed") == "yes":
        number = await removal.act(visit, name, visit.reasoned())
        return visit.go(f"/queues/{name}", f"{words.count_of(number, 'job')} left {name}")
    line = await read_queue(visit.ledger, visit.engine, name)
    return visit.page(
        "confirm.html",
        title=f"{removal.title} {name}?",
        count=words.count_of(removal.count(line), "job"),
        sentence=removal.sentence,
        button=removal.title,
        danger=True,
        action=visit.url(f"/queues/{name}/{verb}"),
        fields=[("confirmed", "yes")],
        back=visit.url(f"/queues/{name}"),
        subjects=[],
        command_line=visit.command("queues", *removal.words, name),
    )


def describe_bounds(settings: QueueSettings) -> str:
    """Bounds in words. Pure."""
    starts, at_once = "any number of starts", "any number at once"
    if isinstance(settings.limit, Limit):
        starts = f"{words.count_of(settings.limit.jobs, 'start')} in {describe_seconds(settings.limit.seconds)}"
    if settings.concurrency is not None and not isinstance(settings.concurrency, Unsaid):
        at_once = f"{words.number(settings.concurrency)} at once"
    return f"{starts}, {at_once}"


def held_back(line: QueueLine) -> list[str]:
    """What keeps its jobs from starting, in a few words each; nothing for a queue that just works. Pure."""
    counts, terms, found = line.counts, line.terms, []
    if terms.paused:
        found.append("paused")
    if terms.throttled_seconds:
        found.append(f"throttled for {words.age(terms.throttled_seconds)}")
    if terms.concurrency is not None and counts.active >= terms.concurrency:
        found.append(f"all {terms.concurrency} runs taken")
    if not line.workers and counts.waiting + counts.prioritized:
        found.append("no worker")
    found += [f"{words.number(one.count)} parked {words.cut(one.kind.job, 40)}" for one in line.parked]
    return found


def rates_of(seen: Seen) -> dict[str, float]:
    """Deliveries settled per second by queue, from the last two looks. Pure."""
    if seen.status is None:
        return {}
    homes = {consumer.name: route.queue for consumer in seen.status.consumers for route in consumer.routes}
    rates: dict[str, float] = {}
    for name, pace in seen.paces.items():
        if name in homes:
            rates[homes[name]] = rates.get(homes[name], 0.0) + pace.settled_per_second
    return rates


def states_of(line: QueueLine) -> list[tuple[JobState, int]]:
    """How many jobs are in each state, in the order in which they pass through. Pure."""
    counts = line.counts
    return [
        (JobState.WAITING, counts.waiting),
        (JobState.PRIORITIZED, counts.prioritized),
        (JobState.ACTIVE, counts.active),
        (JobState.DELAYED, counts.delayed),
        (JobState.WAITING_CHILDREN, counts.waiting_children),
        (JobState.FAILED, counts.failed),
        (JobState.COMPLETED, counts.completed),
    ]


Steering = Callable[[Ledger, SteeredEngine, str, Person], Awaitable[None]]


async def _steer(visit: Visit, steering: Steering, done: str) -> Response:
    name = visit.part("queue")
    await steering(visit.ledger, visit.engine, name, visit.reasoned())
    return visit.go(f"/queues/{name}", f"{name} {done}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """A way to empty a queue: what it takes, in numbers and words, and the operation."""

    title: str
    action: str
    sentence: str
    words: tuple[str, ...]
    count: Callable[[QueueLine], int]
    act: Callable[[Visit, str, Person], Awaitable[int]]


async def _drain(visit: Visit, name: str, person: Person) -> int:
    return await queues.drain(visit.ledger, visit.engine, name, person, delayed=False)


async def _obliterate(visit: Visit, name: str, person: Person) -> int:
    return await queues.obliterate(visit.ledger, visit.engine, name, person, force=False)


def _clean(state: JobState) -> Callable[[Visit, str, Person], Awaitable[int]]:
    async def act(visit: Visit, name: str, person: Person) -> int:
        return await queues.clean(
            visit.ledger, visit.engine, name, state, person, older_than_seconds=0.0, most=MOST_CLEANED
        )

    return act


REMOVALS: Mapping[str, Removal] = {
    "drain": Removal(
        title="Drain",
        action="drain",
        sentence="Jobs that wait leave the engine. Those of open deliveries come back with the next look; direct jobs are gone for good.",
        words=("drain",),
        count=lambda line: waiting_jobs(line.counts, delayed=False),
        act=_drain,
    ),
    "clean-completed": Removal(
        title="Clean completed jobs of",
        action="clean",
        sentence="They leave the engine. The ledger keeps what became of their deliveries.",
        words=("clean", "--state", "completed", "--older-than", "0s"),
        count=lambda line: min(line.counts.completed, MOST_CLEANED),
        act=_clean(JobState.COMPLETED),
    ),
    "clean-failed": Removal(
        title="Clean failed jobs of",
        action="clean",
        sentence="They leave the engine and can be retried in place no more. Dead letters stay, and can be redriven.",
        words=("clean", "--state", "failed", "--older-than", "0s"),
        count=lambda line: min(line.counts.failed, MOST_CLEANED),
        act=_clean(JobState.FAILED),
    ),
    "obliterate": Removal(
        title="Obliterate",
        action="obliterate",
        sentence="Everything that the engine holds of the queue goes, and it stays paused. Open deliveries come back; direct jobs do not.",
        words=("obliterate",),
        count=lambda line: sum(number for _, number in states_of(line)),
        act=_obliterate,
    ),
}

ROUTES = (
    page("/queues", show_queues),
    page("/queues/{queue}", show_queue),
    deed("/queues/{queue}/pause", pause),
    deed("/queues/{queue}/resume", resume),
    deed("/queues/{queue}/limit", bound),
    deed("/queues/{queue}/{removal}", remove),
)
