"""`@queue.schedule(…)`: a function that runs by the clock. `await queue.upsert_schedule(…)`: the same while the program runs."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, Concatenate, ParamSpec, Protocol, TypedDict, TypeVar, Unpack, overload

from homing.app.handlers import Handler, describe_function
from homing.app.options import Keep, Options, Retry
from homing.app.schedules import DeclaredSchedule, Target, Tick, When, make_schedule, target_of
from homing.client import Client, Data
from homing.config.sources import did_you_mean
from homing.errors import EnqueueError, RegistrationError
from homing.events.event import Event
from homing.queue.schedules import Upserted

E = TypeVar("E", bound=Event)
P = ParamSpec("P")
R = TypeVar("R")


class TickOptions(TypedDict, total=False):
    """What a handler of ticks says of itself, as `queue.handler` takes it."""

    at_least_once: bool
    cpu: bool
    consumer: str | None
    retry: Retry | None
    timeout: timedelta | None
    deadline: timedelta | None
    keep_completed: Keep | None
    keep_failed: Keep | None


class ScheduleRegistry(Protocol):
    """The app's side of a schedule."""

    @property
    def client(self) -> Client:
        """The client of the running event loop."""
        ...

    def register_schedule(self, declared: DeclaredSchedule) -> None:
        """Take the schedule, or refuse it."""
        ...

    def handlers_of(self, queue: str) -> Mapping[str, Handler]:
        """The handlers of a queue that this process has imported, by job name."""
        ...


class SchedulingQueue(ABC):
    """The part of a queue that declares schedules."""

    name: str
    options: Options
    _registry: ScheduleRegistry

    @abstractmethod
    def _handle_ticks(self, name: str, function: Callable[..., Any], options: TickOptions) -> None:
        """Register the function as a handler of ticks."""

    @overload
    def schedule(
        self,
        name: str,
        *,
        cron: str | None = ...,
        zone: str | None = ...,
        every: timedelta | None = ...,
        start: datetime | None = ...,
        end: datetime | None = ...,
        limit: int | None = ...,
        immediate: bool = ...,
        priority: int = ...,
        data: None = ...,
        **options: Unpack[TickOptions],
    ) -> Callable[[Callable[Concatenate[Tick, P], R]], Callable[Concatenate[Tick, P], R]]: ...

    @overload
    def schedule(
        self,
        name: str,
        *,
        data: E,
        cron: str | None = ...,
        zone: str | None = ...,
        every: timedelta | None = ...,
        start: datetime | None = ...,
        end: datetime | None = ...,
        limit: int | None = ...,
        immediate: bool = ...,
        priority: int = ...,
    ) -> Callable[[Callable[Concatenate[E, P], R]], Callable[Concatenate[E, P], R]]: ...

    def schedule(
        self,
        name: str,
        *,
        cron: str | None = None,
        zone: str | None = None,
        every: timedelta | None = None,
        start: datetime | None = None,
        end: datetime | None = None,
        limit: int | None = None,
        immediate: bool = False,
        priority: int = 0,
        data: Event | None = None,
        **options: Unpack[TickOptions],
    ) -> Callable[[Callable[..., R]], Callable[..., R]]:
        """Run the decorated function by the clock: at the times of a `cron` pattern in a `zone` (UTC unless said), or `every` so often.

        Its first parameter is a `Tick`. It is a handler of the queue, with the options of one: a `Transaction[...]` gives each tick its effect
        once. Above a `@queue.handler(…)` of the same queue, the schedule runs that handler with `data`; several may stand above one.

        Nothing runs before `start` or after `end`; `limit` = so many ticks in all. `every` begins at once, or at its start; `immediate=True` lets
        a new schedule with a pattern fire at once too. Workers write schedules down when they start, as many as there are of them, and a
        schedule that the code does not have any more is shown as orphaned until a person removes it.

        While no worker runs, one tick waits; it runs late, and those that were missed behind it do not. A tick starts although the one before still runs:
        `global_concurrency=1` on the queue lets one run at a time.
        """
        when = When(cron=cron, zone=zone, every=every, start=start, end=end, limit=limit, immediate=immediate)

        def register(function: Callable[..., R]) -> Callable[..., R]:
            if self._handler_of(function) is None:
                self._refuse_data(name, function, data)
                self._handle_ticks(name, function, options)
            elif options:
                raise RegistrationError(
                    f"schedule {name!r} stands above the handler {describe_function(function)} and says {', '.join(options)}: "
                    "say it there"
                )
            handler = self._handler_of(function)
            assert handler is not None  # noqa: S101 - it was registered above
            schedule = make_schedule(self.name, name, when, target_of(handler), data=data, priority=priority)
            self._registry.register_schedule(
                DeclaredSchedule(queue=self.name, schedule=schedule, location=handler.location)
            )
            return function

        return register

    async def upsert_schedule(
        self,
        name: str,
        job: str | Callable[..., Any],
        data: Data | None = None,
        *,
        cron: str | None = None,
        zone: str | None = None,
        every: timedelta | None = None,
        start: datetime | None = None,
        end: datetime | None = None,
        limit: int | None = None,
        immediate: bool = False,
        priority: int = 0,
    ) -> bool:
        """Make a schedule while the program runs, one for each tenant for instance, or change it; whether anything changed.

        `job`: a handler's name, or the handler where it is imported; `data`: its event, or a JSON object for workers of other systems. Any number of
        processes may say the same at once. The ledger keeps it within seconds, where a relay runs, and gives it back after a flush.

        Raises `EnqueueError` for what cannot be, before anything is sent; `ServerUnavailable` within two seconds when Redis does not take it.
        """
        when = When(cron=cron, zone=zone, every=every, start=start, end=end, limit=limit, immediate=immediate)
        try:
            schedule = make_schedule(self.name, name, when, self._target(job, data), data=data, priority=priority)
        except RegistrationError as error:
            raise EnqueueError(str(error)) from error
        client = self._registry.client
        answer = client.engine.upsert_schedules(self.name, [schedule])
        (upserted,) = await client.ask(answer, "whether it was set is not known: say it again")
        return upserted in (Upserted.ADDED, Upserted.CHANGED)

    async def remove_schedule(self, name: str) -> bool:
        """Remove a schedule that was made while the program ran, with its tick unless that is due; `False` when there is none.

        One that code declares comes back: take it out of the code, or pause it.
        """
        client = self._registry.client
        answer = client.engine.remove_schedule(self.name, name)
        return await client.ask(answer, "whether it was removed is not known: say it again")

    def _target(self, job: str | Callable[..., Any], data: Data | None) -> Target:
        """The handler's jobs, or those of a name, which in a process that imports no handlers may be any."""
        handlers = self._registry.handlers_of(self.name)
        handler = handlers.get(job) if isinstance(job, str) else self._handler_of(job)
        if handler is not None:
            return target_of(handler)
        if not isinstance(job, str):
            raise EnqueueError(f"{describe_function(job)} is no handler of queue {self.name!r}")
        if handlers and not isinstance(data, Mapping):
            hint = did_you_mean(job, handlers)
            raise EnqueueError(
                f"queue {self.name!r} has no handler {job!r}{hint}; a worker of another system gets its data as a mapping"
            )
        return Target(job_name=job, policy=self.options.policy(), event=None, location="made while the program runs")

    def _handler_of(self, function: Callable[..., Any]) -> Handler | None:
        handlers = self._registry.handlers_of(self.name).values()
        return next((handler for handler in handlers if handler.function is function), None)

    def _refuse_data(self, name: str, function: Callable[..., Any], data: Event | None) -> None:
        if data is not None:
            raise RegistrationError(
                f"schedule {name!r} has data, and {describe_function(function)} is no handler of queue {self.name!r} yet: "
                f"put @{self.name}.handler(…, on={type(data).__name__}) below it"
            )
