"""Enqueueing directly: `await queue.enqueue(…)` for jobs outside the outbox, and what one may ask of a queue in Redis."""

import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from datetime import timedelta
from functools import cached_property
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, Unpack, overload

from homing.app.handlers import Handler
from homing.app.options import Options, Policy
from homing.client import (
    Client,
    Data,
    EnqueueOptions,
    EventStream,
    Handle,
    JobCounts,
    JobPage,
    JobState,
    QueueTerms,
    Terms,
    make_job,
    read_options,
)
from homing.config.logs import log_context
from homing.config.sources import did_you_mean
from homing.errors import EnqueueError
from homing.events.event import Event
from homing.ids import JobId
from homing.queue.admission import can_be_job
from homing.queue.port import QueueSettings

log = logging.getLogger("homing.client")

E = TypeVar("E", bound=Event)
P = ParamSpec("P")
R = TypeVar("R")

_READ = "nothing was changed"
_DONE = "whether it was done is not known, say it again"


class ClientSource(Protocol):
    """The app's side of enqueueing."""

    @property
    def client(self) -> Client:
        """The client of the running event loop."""
        ...

    def handlers_of(self, queue: str) -> Mapping[str, Handler]:
        """The handlers of a queue that this process has imported, by job name."""
        ...

    def handler_of(self, consumer: str) -> Handler | None:
        """The handler that this process has imported under a consumer's name."""
        ...


class EnqueueingQueue:
    """The part of a queue that speaks to Redis. Everything here needs a running event loop, and opens a connection at the first use."""

    def __init__(self, source: ClientSource, name: str, options: Options) -> None:
        self.name = name
        self.options = options
        self._source = source
        self._warned: set[str] = set()

    @overload
    async def enqueue(
        self,
        job: Callable[Concatenate[E, P], Coroutine[Any, Any, R]],
        data: E,
        **options: Unpack[EnqueueOptions],
    ) -> Handle[R]: ...

    @overload
    async def enqueue(
        self, job: Callable[Concatenate[E, P], R], data: E, **options: Unpack[EnqueueOptions]
    ) -> Handle[R]: ...

    @overload
    async def enqueue(self, job: str, data: Data, **options: Unpack[EnqueueOptions]) -> Handle[Any]: ...

    async def enqueue(
        self, job: str | Callable[..., Any], data: Data, **options: Unpack[EnqueueOptions]
    ) -> Handle[Any]:
        """Add one job now, outside any transaction: it is as durable as Redis, and a commit that fails afterwards does not take it back.

        `job`: a handler's name, or the handler itself where it is imported. `data`: its event; for workers of other systems any JSON object,
        which is their job's data as it is. An event gives the job its id, so that the same object enqueued twice is one job. What
        must not be lost is recorded instead (`record`).

        Raises before anything is sent: `EnqueueError` for an id, option or name that cannot be, `PayloadError` for data that cannot travel.
        `ServerUnavailable` within two seconds when Redis does not take the job; nothing is kept in memory to be sent later.
        """
        (handle,) = await self._enqueue(job, [data], read_options(options))
        return handle

    async def enqueue_many(
        self, job: str | Callable[..., Any], data: Sequence[Data], **options: Unpack[EnqueueOptions]
    ) -> list[Handle[Any]]:
        """Add a job for each of `data`, in one write where they fit; all are checked before any is added. Options are those of `enqueue`."""
        terms = read_options(options)
        if terms.id is not None and len(data) > 1:
            raise EnqueueError(f"id={str(terms.id)!r} cannot be the id of {len(data)} jobs: leave it out")
        return await self._enqueue(job, data, terms)

    def job(self, job_id: str) -> Handle[Any]:
        """A job by its id, whoever added it; nothing is asked yet. An `EnqueueError` for what no job can be called."""
        if not isinstance(job_id, str) or not can_be_job(job_id):
            raise EnqueueError(f"{job_id!r} cannot be the id of a job")
        return Handle(queue=self.name, id=JobId(job_id), _client=lambda: self._source.client)

    def events(self, *, after: str | None = None) -> EventStream:
        """What happens in the queue, to be used as `async with queue.events() as events: async for event in events`.

        From now on, or behind `after`, the `position` of an earlier stream. A connection that breaks is made again and no event is left out;
        where Redis did not keep them, an `EventsMissed` stands in their place.
        """
        return self._source.client.engine.follow(self.name, after=after)

    async def jobs(
        self, state: JobState, *, after: str | None = None, most: int = 100, newest_first: bool = False
    ) -> JobPage:
        """A page of the jobs of a state; `after` is that of the page before."""
        client = self._source.client
        call = client.engine.browse(self.name, state, after=after, most=most, newest_first=newest_first)
        return await client.ask(call, _READ)

    async def counts(self) -> JobCounts:
        """Jobs by state."""
        client = self._source.client
        return await client.ask(client.engine.counts(self.name), _READ)

    async def terms(self) -> QueueTerms:
        """What holds the queue back now: a pause, its limits."""
        client = self._source.client
        return await client.ask(client.engine.terms(self.name), _READ)

    async def pause(self) -> None:
        """Let no worker start a job of the queue, ours or not; what runs goes on. The ledger keeps it within a second."""
        client = self._source.client
        await client.ask(client.engine.push_settings(self.name, QueueSettings(paused=True)), _DONE)

    async def resume(self) -> None:
        """Let workers start jobs again."""
        client = self._source.client
        await client.ask(client.engine.push_settings(self.name, QueueSettings(paused=False)), _DONE)

    async def clean(self, state: JobState, *, older_than: timedelta, most: int = 1_000) -> int:
        """Remove jobs that completed or failed longer ago than that, the oldest first, at most so many; how many there were."""
        return await self._source.client.engine.clean(self.name, state, older_than.total_seconds(), most)

    async def drain(self, *, delayed: bool = False) -> int:
        """Remove the jobs that wait; how many there were. Those of open deliveries come back with the next look."""
        return await self._source.client.engine.drain(self.name, delayed=delayed)

    async def standing(self, deduplication_id: str) -> JobId | None:
        """The job that counts now for a de-duplication id."""
        client = self._source.client
        return await client.ask(client.engine.standing(self.name, deduplication_id), _READ)

    async def lift(self, deduplication_id: str) -> bool:
        """Let no job count for a de-duplication id, so that the next one is added; whether one did."""
        client = self._source.client
        return await client.ask(client.engine.lift(self.name, deduplication_id), _DONE)

    # ── Inside ──────────────────────────────────────────────────────────────────────────────────────────────────────

    @cached_property
    def _policy_of_strangers(self) -> Policy:
        return self.options.policy()

    async def _enqueue(self, job: str | Callable[..., Any], data: Sequence[Data], terms: Terms) -> list[Handle[Any]]:
        handler = self._handler(job, elsewhere=terms.elsewhere)
        if handler is not None:
            for one in data:
                _check_event(handler, one)
        name = job if isinstance(job, str) else "" if handler is None else handler.job_name
        policy = self._policy_of_strangers if handler is None else handler.policy
        client = self._source.client
        made = [make_job(name, one, terms, policy, client.now_ms) for one in data]
        if not made:
            return []
        self._warn_inside_transaction()
        added = await client.add(self.name, made)
        return [
            Handle(
                queue=self.name,
                id=one.id,
                deduplicated=one.deduplicated,
                _client=lambda: self._source.client,
                _since_ms=one.since_ms,
            )
            for one in added
        ]

    def _handler(self, job: str | Callable[..., Any], *, elsewhere: bool) -> Handler | None:
        """The handler where this process knows it. A process that imports no handlers takes any name: its worker parks what it does not know."""
        known = self._source.handlers_of(self.name)
        if not isinstance(job, str):
            found = next((handler for handler in known.values() if handler.function is job), None)
            if found is None:
                raise EnqueueError(f"{getattr(job, '__qualname__', job)!r} is no handler of queue {self.name!r}")
            return found
        if elsewhere:
            return None
        if job not in known and known:
            raise EnqueueError(
                f"queue {self.name!r} has no handler {job!r}{did_you_mean(job, known)}; for a worker of another system say elsewhere=True"
            )
        return known.get(job)

    def _warn_inside_transaction(self) -> None:
        """A handler that takes the transaction, and enqueues beside it, says two things that may not both come true."""
        consumer = log_context.get().get("consumer")
        inside = self._source.handler_of(consumer) if isinstance(consumer, str) else None
        if inside is not None and inside.transaction is not None and inside.consumer not in self._warned:
            self._warned.add(inside.consumer)
            log.warning(
                "%s enqueues to %s from inside its transaction: the job stays when that is rolled back; record an event instead",
                consumer,
                self.name,
            )


def _check_event(handler: Handler, data: Data) -> None:
    if not isinstance(data, handler.event):
        raise EnqueueError(
            f"{handler.consumer} takes {handler.event.__name__}, not {type(data).__name__}: give it the event that it is registered on"
        )
