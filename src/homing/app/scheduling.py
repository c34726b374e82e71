"""`@queue.schedule(…)`: a function that runs by the clock."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, Concatenate, ParamSpec, Protocol, TypedDict, TypeVar, Unpack, overload

from homing.app.handlers import Handler, describe_function
from homing.app.options import Keep, Retry
from homing.app.schedules import DeclaredSchedule, Tick, When, declare
from homing.errors import RegistrationError
from homing.events.event import Event

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

    def register_schedule(self, declared: DeclaredSchedule) -> None:
        """Take the schedule, or refuse it."""
        ...

    def handlers_of(self, queue: str) -> Mapping[str, Handler]:
        """The handlers of a queue that this process has imported, by job name."""
        ...


class SchedulingQueue(ABC):
    """The part of a queue that declares schedules."""

    name: str
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
            self._registry.register_schedule(declare(self.name, name, when, handler, data=data, priority=priority))
            return function

        return register

    def _handler_of(self, function: Callable[..., Any]) -> Handler | None:
        handlers = self._registry.handlers_of(self.name).values()
        return next((handler for handler in handlers if handler.function is function), None)

    def _refuse_data(self, name: str, function: Callable[..., Any], data: Event | None) -> None:
        if data is not None:
            raise RegistrationError(
                f"schedule {name!r} has data, and {describe_function(function)} is no handler of queue {self.name!r} yet: "
                f"put @{self.name}.handler(…, on={type(data).__name__}) below it"
            )
