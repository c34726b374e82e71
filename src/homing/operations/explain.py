"""Why is it not running? A pure judgement over what was found of one delivery, event or job: what, since when, and what to do."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum

from homing.durations import describe_seconds
from homing.ledger.gate import Outcome
from homing.operations.overview import ProcessState
from homing.operations.waiting_children import ChildrenFacts
from homing.queue.browse import QueueTerms, ShownJob


@dataclass(frozen=True, slots=True, kw_only=True)
class EventFacts:
    """A recorded event. `subscribers`: the active consumers of its topic."""

    topic: str
    created_at: datetime
    available_at: datetime
    published_at: datetime | None
    parked_error: str | None
    is_due: bool
    subscribers: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterFacts:
    """The last dead letter of a delivery; `closed_as` is `None` while it is open."""

    id: int
    kind: str
    failed_at: datetime
    error: str
    closed_as: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryFacts:
    """A delivery's row. `is_older`: the engine's data is newer than what its job was last seen in. `names`: of handlers that take it.

    `is_foreign`: another system runs its jobs.
    """

    consumer: str
    queue: str
    generation: int
    opened_at: datetime
    check_at: datetime
    vanished: int
    outcome: Outcome | None
    settled_at: datetime | None
    is_older: bool
    names: frozenset[str]
    retired_at: datetime | None
    is_foreign: bool
    deadline_at: datetime | None
    letter: LetterFacts | None
    is_held: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFacts:
    """What the engine shows: the job, and what holds its queue back. `is_parked`: jobs of its kind wait for code that knows them.

    `children`: of a job that waits for them.
    """

    job: ShownJob | None
    terms: QueueTerms = field(default_factory=QueueTerms)
    running: int = 0
    is_parked: bool = False
    children: ChildrenFacts | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Everything that was found. `generation`: the one that was asked for, `None` = whichever. `engine_error`: why `engine` is unknown."""

    now: datetime
    queue: str | None = None
    generation: int | None = None
    event: EventFacts | None = None
    delivery: DeliveryFacts | None = None
    engine: JobFacts | None = None
    engine_error: str | None = None
    processes: tuple[ProcessState, ...] = ()

    @property
    def relay_lives(self) -> bool:
        """Whether any live process moves events to the queues."""
        return any(process.alive and process.routes for process in self.processes)

    @property
    def workers(self) -> list[ProcessState]:
        """The live workers that serve the queue."""
        return [one for one in self.processes if one.alive and one.role == "worker" and self.queue in one.queues]


class Because(Enum):
    """What holds something up, or has ended it."""

    ENGINE_AWAY = "engine away"
    EVENT_PARKED = "event parked"
    SCHEDULED = "scheduled"
    UNROUTABLE = "unroutable"
    NO_RELAY = "no relay"
    NOT_ROUTED = "not routed yet"
    NOT_DELIVERED = "no delivery"
    SUPERSEDED = "superseded"
    NEVER_OPENED = "never opened"
    DONE = "done"
    CANCELLED = "cancelled"
    DEAD = "dead"
    ADOPTED_SOON = "retried in place"
    HELD = "held by a run"
    RETIRED = "consumer retired"
    EXPIRED = "deadline passed"
    NO_JOB = "no job"
    GHOST = "ghost"
    ADRIFT = "in no list"
    UNSETTLED_END = "ended, not settled"
    RUNNING = "running"
    LEASE_LOST = "lease lost"
    PARKED = "parked"
    RETRY_DUE = "waits for a retry"
    DELAYED = "delayed"
    CHILDREN = "waits for children"
    FAILED = "failed"
    COMPLETED = "completed"
    PAUSED = "queue paused"
    LIMITED = "limit reached"
    FULL = "concurrency reached"
    NO_WORKER = "no worker"
    UNKNOWN_TO_WORKERS = "unknown to workers"
    FOREIGN = "another system's"
    IN_LINE = "in line"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """One reason: what it is, in words with the numbers, what to do, and since when (or, of a time to come, until when)."""

    because: Because
    text: str
    remedy: str
    since: datetime | None = None
    until: datetime | None = None


START_RELAY = "no relay lives: start `homing worker` or `homing relay`"
NOTHING_TO_DO = "nothing"


def ledger_reasons(facts: Facts) -> Iterator[Reason]:
    """What the ledger alone says. A delivery that is pending has its other reasons in the engine."""
    delivery = facts.delivery
    if delivery is None:
        if facts.event is not None:
            yield from _event(facts, facts.event)
        return
    if facts.generation is not None and facts.generation != delivery.generation:
        yield _other_generation(delivery, facts.generation)
    match delivery.outcome:
        case "done":
            yield Reason(because=Because.DONE, text="it is done", remedy=NOTHING_TO_DO, since=delivery.settled_at)
        case "cancelled":
            yield Reason(
                because=Because.CANCELLED,
                text="a person cancelled it; who did says `homing actions list`",
                remedy="record its event again if that was a mistake",
                since=delivery.settled_at,
            )
        case "dead":
            yield from _dead(facts, delivery)
        case None:
            yield from _pending(facts, delivery)


def _event(facts: Facts, event: EventFacts) -> Iterator[Reason]:
    if event.published_at is not None:
        yield Reason(
            because=Because.NOT_DELIVERED,
            text="its event was routed, and not to this consumer, which subscribed later or not at all",
            remedy="`homing backfill` gives a consumer the events that it came too late for",
            since=event.published_at,
        )
    elif event.parked_error is not None:
        yield Reason(
            because=Because.EVENT_PARKED,
            text=f"no job can be made of its event: {event.parked_error}",
            remedy="mend it, then `homing events release`",
            since=event.created_at,
        )
    elif not event.is_due:
        wait = describe_seconds((event.available_at - facts.now).total_seconds())
        yield Reason(
            because=Because.SCHEDULED,
            text=f"it was recorded for later and is routed in {wait}",
            remedy=NOTHING_TO_DO,
            since=event.created_at,
            until=event.available_at,
        )
    elif not event.subscribers:
        yield Reason(
            because=Because.UNROUTABLE,
            text=f"nobody subscribes to its topic {event.topic}",
            remedy="deploy the workers whose code handles it: it flows as soon as one has started",
            since=event.available_at,
        )
    elif not facts.relay_lives:
        yield Reason(
            because=Because.NO_RELAY, text="nobody routes events", remedy=START_RELAY, since=event.available_at
        )
    else:
        yield Reason(
            because=Because.NOT_ROUTED,
            text="it waits to be routed, behind older events of its topic",
            remedy="nothing for a moment; read the relay's log if that lasts",
            since=event.available_at,
        )


def _other_generation(delivery: DeliveryFacts, asked: int) -> Reason:
    if asked < delivery.generation:
        return Reason(
            because=Because.SUPERSEDED,
            text=f"it was redriven: generation {asked} is over, and generation {delivery.generation} counts",
            remedy="what follows is about the newest one",
            since=delivery.opened_at,
        )
    return Reason(
        because=Because.NEVER_OPENED,
        text=f"the ledger knows generations up to {delivery.generation}, not {asked}: it lost a commit, or it is another ledger",
        remedy="check DATABASE_URL and the backups; such a job never runs",
    )


def _dead(facts: Facts, delivery: DeliveryFacts) -> Iterator[Reason]:
    letter = delivery.letter
    if letter is None:
        yield Reason(
            because=Because.DEAD,
            text="it is dead, and its letter was pruned",
            remedy="record its event again if it matters still",
            since=delivery.settled_at,
        )
        return
    if letter.closed_as is not None:
        yield Reason(
            because=Because.DEAD,
            text=f"it died ({letter.kind}: {letter.error}), and its letter {letter.id} was closed as {letter.closed_as}",
            remedy="nothing, a person decided so",
            since=letter.failed_at,
        )
        return
    job = None if facts.engine is None else facts.engine.job
    if job is not None and job.mark == f"dead:{letter.id}" and job.state is not None and not job.state.finished:
        yield Reason(
            because=Because.ADOPTED_SOON,
            text=f"it died ({letter.kind}: {letter.error}), and its job waits to run again: the next claim opens it",
            remedy=NOTHING_TO_DO,
            since=letter.failed_at,
        )
        return
    yield Reason(
        because=Because.DEAD,
        text=f"it died ({letter.kind}: {letter.error})",
        remedy=f"`homing deadletters show {letter.id}`, then `homing redrive --id {letter.id}` or dismiss it",
        since=letter.failed_at,
    )


def _pending(facts: Facts, delivery: DeliveryFacts) -> Iterator[Reason]:
    if delivery.deadline_at is not None and delivery.deadline_at <= facts.now:
        yield Reason(
            because=Because.EXPIRED,
            text="its deadline has passed: it starts no run any more, and is dead as soon as it is claimed or looked for",
            remedy="see below what kept it waiting; `homing redrive` gives it a new deadline once it is dead",
            since=delivery.deadline_at,
        )
    if delivery.retired_at is not None:
        yield Reason(
            because=Because.RETIRED,
            text="its consumer was retired, and this delivery is older",
            remedy="it still runs where a worker has the handler; `homing jobs cancel` ends it",
            since=delivery.retired_at,
        )
    if delivery.is_held:
        yield Reason(
            because=Because.HELD,
            text="a transaction holds its row: a run of it has settled it and not committed yet",
            remedy="wait for that run; if it hangs, look for its transaction in pg_stat_activity",
        )
