"""Calls on a queue, played by our engine and by BullMQ in Node on a clock that stands still: each writes down what it answered and left."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

from redis import Redis

from homing.queue.job import Deduplication, KeepRule
from homing.queue.parent import OnFailure
from tests.queue_keys import QueueKeys, queue_keys

QUEUE = "mail"
CHILDREN = "parcels"
QUEUES = (QUEUE, CHILDREN)
START_MS = 1_800_000_000_000
STEP_MS = 1_000
HOUR = 3_600.0
HOUR_MS = 3_600_000
WORKER = "w"
NEVER = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Moment:
    """What one call came to."""

    call: str
    answer: Any
    keys: dict[str, QueueKeys]


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What is asked for with a job; `backoff` is its kind and its hours."""

    delay_hours: float = 0.0
    priority: int = 0
    lifo: bool = False
    attempts: int = 1
    backoff: tuple[str, float] | None = None
    keep_completed: KeepRule = field(default_factory=KeepRule)
    keep_failed: KeepRule = field(default_factory=KeepRule)
    same: Deduplication | None = None


class Player(ABC):
    """Plays calls on a queue of its own. Every call takes a second of its clock."""

    def __init__(self, client: Redis, prefix: str) -> None:
        self.client = client
        self.prefix = prefix
        self.story: list[Moment] = []
        self.now_ms = START_MS
        self.tokens = 0

    async def play(self, call: str, *args: Any, **terms: Any) -> None:
        """Make one call, and write down what came of it."""
        self.now_ms += STEP_MS
        await self._set_clock()
        answer = await getattr(self, call)(*args, **terms)
        told = f"{call} {args} {terms}"
        self.story.append(Moment(told, answer, self._look()))

    def knows(self, name: str) -> bool:
        """Whether the last call left a job or a schedule of this name."""
        left = self.story[-1].keys.values() if self.story else ()
        return any(name in keys or f"repeat:{name}" in keys for keys in left)

    def tick_waits(self) -> bool:
        """Whether the tick of a schedule is among the jobs that wait."""
        waiting = self.story[-1].keys[QUEUE].get("wait", []) if self.story else []
        return any(job_id.startswith("repeat:") for job_id in waiting)

    def _look(self) -> dict[str, QueueKeys]:
        return {queue: queue_keys(self.client, self.prefix, queue) for queue in QUEUES}

    # ── What happens to the server, the same for both ───────────────────────────────────────────────────────────────

    async def pass_time(self, hours: float) -> None:
        """Let time go by for whoever is told it."""
        self.now_ms += round(hours * HOUR_MS)

    async def expire(self, name: str) -> None:
        """Let a key of the queue run out."""
        self.client.delete(f"{self.prefix}:{QUEUE}:{name}")

    def _token(self) -> str:
        self.tokens += 1
        return f"token-{self.tokens}"

    # ── What each does in its own way ───────────────────────────────────────────────────────────────────────────────

    @abstractmethod
    async def _set_clock(self) -> None: ...

    @abstractmethod
    async def add(self, *ids: str, **terms: Any) -> Any:
        """Jobs under the same `Terms`; the ids that stand for them."""

    @abstractmethod
    async def claim(self, queue: str = QUEUE) -> str | None:
        """The id of the job, which is known by its number from now on. Whoever gets a tick makes the next one."""

    @abstractmethod
    async def claim_group(self, most: int) -> list[str]:
        """Several at once; the ids."""

    @abstractmethod
    async def complete_group(self, *which: int) -> list[Any]:
        """Several at once, and the next ones claimed."""

    @abstractmethod
    async def complete(self, which: int, *, claims_next: bool = False) -> Any: ...

    @abstractmethod
    async def fail(self, which: int, *, claims_next: bool = False) -> Any:
        """For good, whatever attempts are left."""

    @abstractmethod
    async def retry(self, which: int, *, delay_hours: float = 0.0, claims_next: bool = False) -> Any:
        """After a failure; the delay is that of the job's backoff."""

    @abstractmethod
    async def snooze(self, which: int, delay_hours: float) -> Any:
        """Without a failure."""

    @abstractmethod
    async def release(self, which: int) -> Any: ...

    @abstractmethod
    async def extend(self, which: int) -> Any: ...

    @abstractmethod
    async def progress(self, job_id: str, value: object) -> Any: ...

    @abstractmethod
    async def log(self, job_id: str, *lines: str) -> Any: ...

    @abstractmethod
    async def add_flow(self, parent: str, *children: str, on_failure: OnFailure, **terms: Any) -> Any:
        """A parent, and children in the other queue."""

    @abstractmethod
    async def add_child(self, parent: str, child: str, *, on_failure: OnFailure) -> Any:
        """To a parent that is there."""

    @abstractmethod
    async def wait_for_children(self, which: int) -> Any: ...

    @abstractmethod
    async def remove_children(self, parent: str) -> Any: ...

    @abstractmethod
    async def schedule(self, name: str, **when: Any) -> Any:
        """Upsert one: `every_hours`, or `cron` and `zone`; `start_hours`, `end_hours` from now; `limit`, `immediate`."""

    @abstractmethod
    async def unschedule(self, name: str) -> Any: ...

    @abstractmethod
    async def rescue(self) -> Any: ...

    @abstractmethod
    async def promote(self, job_id: str) -> Any: ...

    @abstractmethod
    async def rerun(self, job_id: str) -> Any: ...

    @abstractmethod
    async def remove(self, job_id: str) -> Any: ...

    @abstractmethod
    async def clean(self, state: str, *, hours: float, most: int) -> Any: ...

    @abstractmethod
    async def drain(self, *, delayed: bool) -> Any: ...

    @abstractmethod
    async def obliterate(self, *, force: bool) -> Any: ...

    @abstractmethod
    async def pause(self, *, paused: bool) -> Any: ...

    @abstractmethod
    async def limit(self, jobs: int | None) -> Any:
        """Of starts in an hour."""

    @abstractmethod
    async def concurrency(self, jobs: int | None) -> Any: ...

    @abstractmethod
    async def throttle(self, hours: float) -> Any: ...
