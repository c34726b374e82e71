"""Jobs in the engine: found by id or by what they have in common, shown, and given another turn."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from homing.errors import Refused, UnknownId
from homing.ids import DeliveryKey, JobId
from homing.ledger.actions import Person, keep_action
from homing.ledger.ledger import Ledger
from homing.ledger.statements import QUEUES
from homing.queue.admission import can_be_job
from homing.queue.browse import JobState, ListedJob, ShownJob, SteeredEngine
from homing.schema.statement import load

OPEN_JOBS = load("homing.operations", "open_jobs")

PAGE = 500
"""Jobs that are read, or acted on and kept as one action, at a time."""

MOST_PAGES = 4
"""Pages that one list reads in search of a name before it says how far it came."""

STATES = (
    JobState.ACTIVE,
    JobState.WAITING,
    JobState.PRIORITIZED,
    JobState.DELAYED,
    JobState.WAITING_CHILDREN,
    JobState.FAILED,
    JobState.COMPLETED,
)
"""All states, in the order of a list: what runs, what will, what has ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Which jobs: of this queue, in this state, of this name; `None` = of any."""

    queue: str | None = None
    state: JobState | None = None
    name: str | None = None


@dataclass(frozen=True, slots=True)
class PlacedJob:
    """A job and its queue."""

    queue: str
    job: ListedJob


@dataclass(frozen=True, slots=True)
class JobList:
    """A page of jobs; `after` continues behind it, `None` = that was all. With a name a page may be short and yet not the last."""

    jobs: tuple[PlacedJob, ...]
    after: str | None = None


class Deed(Enum):
    """What people do to jobs; a delivery is cancelled and redriven in the ledger instead."""

    RETRY = "retry"
    PROMOTE = "promote"
    REMOVE = "remove"


class Answer(Enum):
    """What became of one id."""

    RETRIED = "waits to run again, with all its attempts"
    PROMOTED = "waits to be claimed now"
    REMOVED = "removed"
    COMES_BACK = "removed, and comes back: its delivery is open, the next look makes the job again; `homing jobs cancel` ends it for good"
    NOT_FAILED = "left as it is: it is not among the failed jobs"
    NOT_DELAYED = "left as it is: it is not delayed"
    RUNNING = "left as it is: it runs, or belongs to a schedule"
    UNKNOWN = "unknown: no queue has such a job; what died longer ago is run again by `homing redrive`"

    @property
    def is_done(self) -> bool:
        """Whether what was asked for happened."""
        return self in (Answer.RETRIED, Answer.PROMOTED, Answer.REMOVED, Answer.COMES_BACK)


@dataclass(frozen=True, slots=True)
class Acted:
    """The answer for one job id, and the queue that has or had it."""

    job_id: str
    queue: str | None
    answer: Answer


async def list_jobs(
    ledger: Ledger, engine: SteeredEngine, choice: Choice, *, after: str | None = None, most: int = 100
) -> JobList:
    """A page of jobs, queue by queue and state by state: what runs next comes first, of finished ones the newest.

    Raises `UnknownId` for a queue that nobody registered, `Refused` for an `after` that no list gave. It reads at most `MOST_PAGES` pages.
    """
    states = STATES if choice.state is None else (choice.state,)
    places = [(queue, state) for queue in await _queues(ledger, choice.queue) for state in states]
    inner = None
    if after is not None:
        places, inner = _continue(places, after)
    search = _Search(engine, choice, most)
    while places and not search.is_over:
        inner = await search.read(*places[0], inner)
        if inner is None:
            places = places[1:]
    return JobList(tuple(search.found), _place_of(*places[0], inner) if places else None)


class _Search:
    """Reads pages of one state after the other, until there is enough or it took long enough."""

    def __init__(self, engine: SteeredEngine, choice: Choice, most: int) -> None:
        self._engine = engine
        self._name = choice.name
        self._most = most
        self._pages = 0
        self.found: list[PlacedJob] = []

    @property
    def is_over(self) -> bool:
        return len(self.found) >= self._most or self._pages >= MOST_PAGES

    async def read(self, queue: str, state: JobState, after: str | None) -> str | None:
        """The next page of a state; returns where it ended, `None` when nothing is left there."""
        left = self._most - len(self.found)
        most = PAGE if self._name is not None else min(PAGE, left)
        try:
            page = await self._engine.browse(queue, state, after=after, most=most, newest_first=state.finished)
        except ValueError as error:
            raise Refused(str(error)) from error
        self._pages += bool(page.jobs)
        matching = [at for at, job in enumerate(page.jobs) if self._name in (None, job.name)][:left]
        self.found += [PlacedJob(queue, page.jobs[at]) for at in matching]
        return page.behind(matching[-1]) if len(matching) == left else page.after


async def gather_ids(ledger: Ledger, engine: SteeredEngine, choice: Choice, most: int) -> list[JobId]:
    """The ids of at most so many jobs, gathered before any of them is touched: what a deed moves is not met again."""
    ids: list[JobId] = []
    after: str | None = None
    while len(ids) < most:
        page = await list_jobs(ledger, engine, choice, after=after, most=min(PAGE, most - len(ids)))
        ids += [placed.job.id for placed in page.jobs]
        after = page.after
        if after is None:
            break
    return list(dict.fromkeys(ids))[:most]


async def find_jobs(
    ledger: Ledger, engine: SteeredEngine, ids: Sequence[JobId], queue: str | None = None
) -> dict[JobId, str]:
    """In which queue each of these ids is a job; those that are nowhere are left out. Constant time for each id and queue.

    BullMQ counts ids per queue: one that several queues have is `Refused`, so that nobody acts on another job than he meant.
    """
    queues, asked = await _queues(ledger, queue), [job_id for job_id in ids if can_be_job(job_id)]
    traces = await asyncio.gather(*(engine.inspect(name, asked) for name in queues))
    found: dict[JobId, str] = {}
    for name, of_queue in zip(queues, traces, strict=True):
        here = {job_id: name for job_id, trace in zip(asked, of_queue, strict=True) if trace.exists}
        if double := sorted(found.keys() & here.keys()):
            raise Refused(f"queues {found[double[0]]} and {name} both have a job {str(double[0])!r}: say --queue")
        found |= here
    return found


async def show_job(
    ledger: Ledger, engine: SteeredEngine, job_id: JobId, queue: str | None = None
) -> tuple[str, ShownJob]:
    """Queue and everything of one job; raises `UnknownId` when no queue has it."""
    places = await find_jobs(ledger, engine, [job_id], queue)
    shown = await engine.show(places[job_id], job_id) if job_id in places else None
    if shown is None:
        where = f"queue {queue!r}" if queue else "any registered queue"
        raise UnknownId(f"no job {str(job_id)!r} in {where}: `homing jobs explain` asks the ledger too")
    return places[job_id], shown


async def act_on_jobs(
    ledger: Ledger,
    engine: SteeredEngine,
    deed: Deed,
    ids: Sequence[JobId],
    *,
    person: Person,
    queue: str | None = None,
) -> list[Acted]:
    """Do it to these jobs, page by page; an answer for each, in order.

    The deed is the engine's, which knows no transaction of the ledger: who does it, and to which jobs, is kept right before. A page whose
    end was not seen may be said again: what moved meanwhile is left as it is.
    """
    person.require(deed.value)
    acted: list[Acted] = []
    for start in range(0, len(ids), PAGE):
        acted += await _act_on_page(ledger, engine, deed, ids[start : start + PAGE], person=person, queue=queue)
    return acted


async def _act_on_page(
    ledger: Ledger, engine: SteeredEngine, deed: Deed, ids: Sequence[JobId], *, person: Person, queue: str | None
) -> list[Acted]:
    places = await find_jobs(ledger, engine, ids, queue)
    if not places:
        return [Acted(job_id, None, Answer.UNKNOWN) for job_id in ids]
    open_jobs = await _open(ledger, list(places)) if deed is Deed.REMOVE else frozenset()
    await keep_action(ledger, person, deed.value, {"jobs": list(places)}, affected=len(places))
    answers = await asyncio.gather(
        *(_act(engine, deed, name, job_id, comes_back=job_id in open_jobs) for job_id, name in places.items())
    )
    by_id = dict(zip(places, answers, strict=True))
    return [Acted(job_id, places.get(job_id), by_id.get(job_id, Answer.UNKNOWN)) for job_id in ids]


async def _act(engine: SteeredEngine, deed: Deed, queue: str, job_id: JobId, *, comes_back: bool) -> Answer:
    match deed:
        case Deed.RETRY:
            return Answer.RETRIED if await engine.rerun(queue, job_id) else Answer.NOT_FAILED
        case Deed.PROMOTE:
            return Answer.PROMOTED if await engine.promote(queue, job_id) else Answer.NOT_DELAYED
        case Deed.REMOVE:
            if not await engine.remove(queue, job_id):
                return Answer.RUNNING
            return Answer.COMES_BACK if comes_back else Answer.REMOVED


async def _open(ledger: Ledger, ids: Sequence[JobId]) -> frozenset[JobId]:
    """Those whose delivery is not settled."""
    keys = [key for job_id in ids if (key := DeliveryKey.parse(job_id)) is not None]
    rows = await ledger.fetch(
        OPEN_JOBS,
        event_ids=[key.event_id for key in keys],
        consumers=[key.consumer for key in keys],
        generations=[key.generation for key in keys],
    )
    return frozenset(DeliveryKey(row["event_id"], row["consumer"], row["generation"]).job_id for row in rows)


async def _queues(ledger: Ledger, queue: str | None) -> list[str]:
    names = [str(row["queue"]) for row in await ledger.fetch(QUEUES)]
    if queue is None:
        return names
    if queue not in names:
        raise UnknownId(f"no queue {queue!r} is registered; there are: {', '.join(names) or 'none'}")
    return [queue]


def _place_of(queue: str, state: JobState, inner: str | None) -> str:
    return f"{queue}/{state.value}/{inner or ''}"


def _continue(places: list[tuple[str, JobState]], after: str) -> tuple[list[tuple[str, JobState]], str | None]:
    """The places that are left, and where in the first of them an earlier page ended."""
    queue, _, rest = after.partition("/")
    state, _, inner = rest.partition("/")
    for at, place in enumerate(places):
        if place[0] == queue and place[1].value == state:
            return places[at:], inner or None
    raise Refused(f"{after!r} is no place in this list: say the same queue and state as for the page before it")
