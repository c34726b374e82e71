"""A queue as an application declares it, and the decorator that registers handlers on it."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Concatenate, Literal, ParamSpec, Protocol, TypeVar, overload

from homing.app.consumers import OTHERS_DEFAULTS, Consumer, check_kept, other_mode
from homing.app.flow_enqueueing import FlowingQueue, RouteSource
from homing.app.handlers import Handler, OnDuplicate, describe_function, inspect_parameters, kind_of
from homing.app.limit_keys import LimitKey, key_reader
from homing.app.messages import MessageId, check_message_id
from homing.app.options import Keep, Options, Policy, RateLimit, Retry
from homing.app.schedules import Tick
from homing.app.scheduling import ScheduleRegistry, SchedulingQueue, TickOptions
from homing.errors import RegistrationError
from homing.events.event import Event
from homing.ids import is_consumer_name
from homing.queue.port import QueueSettings, Unsaid

E = TypeVar("E", bound=Event)
P = ParamSpec("P")
R = TypeVar("R")


class Registry(RouteSource, ScheduleRegistry, Protocol):
    """The app's side of a registration."""

    def register(self, handler: Handler) -> None:
        """Take the handler, or refuse it."""
        ...

    def register_consumer(self, consumer: Consumer) -> None:
        """Take the consumer of another system, or refuse it."""
        ...


class Queue(FlowingQueue, SchedulingQueue):
    """A named queue: its handlers, and the options they share. Made by `Homing.queue`."""

    _registry: Registry

    def __init__(
        self,
        registry: Registry,
        name: str,
        options: Options,
        *,
        concurrency: int | None,
        limit: RateLimit | None,
        alert: Literal["each", "growth"],
        global_concurrency: int | None = None,
        limit_key: LimitKey | None = None,
        key_limit: RateLimit | None = None,
        throttle: Literal["queue", "job", "key"] | None = None,
        other_producers: bool = False,
    ) -> None:
        check_name("queue", name)
        for option, value in (("concurrency", concurrency), ("global_concurrency", global_concurrency)):
            if value is not None and value < 1:
                raise RegistrationError(f"queue {name!r} has {option}={value}: at least 1, or leave it out")
        super().__init__(registry, name, options)
        self.concurrency = concurrency
        self.global_concurrency = global_concurrency
        self.limit = limit
        if limit_key is None and (key_limit is not None or throttle == "key"):
            raise RegistrationError(f"queue {name!r} limits by key and says no limit_key: name a field of its events")
        self.limit_key = limit_key
        self.key_limit = key_limit
        self.throttle: Literal["queue", "job", "key"] = throttle or _waits_by_default(limit, limit_key)
        if alert not in ("each", "growth"):
            raise RegistrationError(f"queue {name!r} has alert={alert!r}: it is 'each' or 'growth'")
        self.alert = alert
        self.other_producers = other_producers
        self._registry = registry

    @overload
    def handler(
        self,
        name: str,
        *,
        on: type[E],
        at_least_once: bool = ...,
        cpu: bool = ...,
        batch: None = ...,
        consumer: str | None = ...,
        aliases: Sequence[str] = ...,
        message_id: MessageId | None = ...,
        on_duplicate: OnDuplicate = ...,
        retry: Retry | None = ...,
        timeout: timedelta | None = ...,
        deadline: timedelta | None = ...,
        keep_completed: Keep | None = ...,
        keep_failed: Keep | None = ...,
    ) -> Callable[[Callable[Concatenate[E, P], R]], Callable[Concatenate[E, P], R]]: ...

    @overload
    def handler(
        self,
        name: str,
        *,
        on: type[E],
        batch: int,
        at_least_once: bool = ...,
        consumer: str | None = ...,
        aliases: Sequence[str] = ...,
        message_id: MessageId | None = ...,
        on_duplicate: OnDuplicate = ...,
        retry: Retry | None = ...,
        timeout: timedelta | None = ...,
        deadline: timedelta | None = ...,
        keep_completed: Keep | None = ...,
        keep_failed: Keep | None = ...,
    ) -> Callable[[Callable[Concatenate[Sequence[E], P], R]], Callable[Concatenate[Sequence[E], P], R]]: ...

    def handler(
        self,
        name: str,
        *,
        on: type[E],
        at_least_once: bool = False,
        cpu: bool = False,
        batch: int | None = None,
        consumer: str | None = None,
        aliases: Sequence[str] = (),
        message_id: MessageId | None = None,
        on_duplicate: OnDuplicate = "skip",
        retry: Retry | None = None,
        timeout: timedelta | None = None,
        deadline: timedelta | None = None,
        keep_completed: Keep | None = None,
        keep_failed: Keep | None = None,
    ) -> Callable[[Callable[..., R]], Callable[..., R]]:
        """Register the decorated function as the consumer of an event.

        `async def` runs on the event loop, `def` in a thread of its own; `cpu=True` runs a `def` that takes only the event, and maybe
        the `Job`, in a child process. `batch=100` calls the function with up to so many events at once, as many as the queue's
        concurrency lets run together; it returns nothing, or a result per event.

        Its first parameter is the event. A parameter typed `Transaction[...]` gives the exactly-once effect; without one, say
        `at_least_once=True`. `Job` gives the run; every other parameter is a resource of the lifespan, found by type.
        `consumer` pins the name (`queue.name` otherwise) under which deliveries are kept; `aliases` are its former names.

        Jobs of other producers are known by their queue, id and time; where the producer may send a message twice, `message_id` says
        what names it: a field of the event, or a function of the job's data. `on_duplicate="raise"` makes a job fail in the engine
        when an earlier run settled it, without a run, a retry or a dead letter: where two copies are somebody's mistake that must
        be seen. `skip` completes it with the result of that run.
        """
        check_name("handler", name)
        own = Options(
            retry=retry, timeout=timeout, deadline=deadline, keep_completed=keep_completed, keep_failed=keep_failed
        )

        def register(function: Callable[..., R]) -> Callable[..., R]:
            self._registry.register(
                Handler(
                    consumer=check_name("consumer", consumer or f"{self.name}.{name}"),
                    queue=self.name,
                    job_name=name,
                    event=check_topic(on, describe_function(function)),
                    function=function,
                    guarantee="at least once" if at_least_once else "once",
                    policy=self._policy(own, on, function),
                    parameters=inspect_parameters(function, on, at_least_once=at_least_once, cpu=cpu, batch=batch),
                    kind=kind_of(function, cpu=cpu),
                    batch=batch,
                    aliases=tuple(check_name("alias", alias) for alias in aliases),
                    message_id=check_message_id(message_id, on, describe_function(function)),
                    on_duplicate=_check_on_duplicate(on_duplicate, describe_function(function)),
                    location=describe_function(function),
                )
            )
            return function

        return register

    def consumer(
        self,
        name: str,
        *,
        on: type[E],
        foreign: bool = False,
        elsewhere: bool = False,
        consumer: str | None = None,
        aliases: Sequence[str] = (),
        retry: Retry | None = None,
        deadline: timedelta | None = None,
        keep_completed: Keep | None = None,
        keep_failed: Keep | None = None,
    ) -> None:
        """Declare that another system consumes an event: its jobs are called `name` and wait in this queue for workers that are not ours.

        `foreign=True`: its finished jobs stay in the engine, by age, for at least three hours; the look finds them and settles their
        deliveries. At least once; a job that is gone without a trace is a dead letter. `elsewhere=True`: handing the job over is all; a
        job that the engine loses afterwards is lost. The other arguments are those of `handler`.
        """
        mode = other_mode(check_name("consumer", name), foreign=foreign, elsewhere=elsewhere)
        own = Options(retry=retry, deadline=deadline, keep_completed=keep_completed, keep_failed=keep_failed)
        declared = Consumer(
            consumer=check_name("consumer", consumer or f"{self.name}.{name}"),
            queue=self.name,
            job_name=name,
            event=check_topic(on, f"consumer {self.name}.{name}"),
            mode=mode,
            policy=own.over(self.options).over(OTHERS_DEFAULTS).policy(),
            aliases=tuple(check_name("alias", alias) for alias in aliases),
            location=f"{self.name}.{name}, in another system",
        )
        if mode == "foreign":
            check_kept(f"consumer {declared.consumer!r}", declared.policy)
        self._registry.register_consumer(declared)

    @property
    def settings(self) -> QueueSettings:
        """What is declared here and holds for all workers of the queue, Node's too."""
        return QueueSettings(
            concurrency=Unsaid.UNSAID if self.global_concurrency is None else self.global_concurrency,
            limit=Unsaid.UNSAID if self.limit is None else self.limit.limit(),
        )

    def _handle_ticks(self, name: str, function: Callable[..., object], options: TickOptions) -> None:
        self.handler(name, on=Tick, **options)(function)

    def _policy(self, own: Options, event: type[Event], function: Callable[..., object]) -> Policy:
        where, key = describe_function(function), self.limit_key
        return replace(
            own.over(self.options).policy(),
            limit=None if self.limit is None else self.limit.limit(),
            read_key=None if key is None else key_reader(key, event, where),
            key_limit=None if self.key_limit is None else self.key_limit.limit(),
            throttle=self.throttle,
        )

    def __repr__(self) -> str:
        return f"<Queue {self.name!r} concurrency={self.concurrency} limit={self.limit}>"


def _waits_by_default(limit: RateLimit | None, limit_key: LimitKey | None) -> Literal["queue", "job", "key"]:
    """What waits after a `Throttled` that does not say: as much as the queue can tell apart."""
    if limit_key is not None:
        return "key"
    return "job" if limit is None else "queue"


def check_name(what: str, name: str) -> str:
    """`name`, when it can be part of a job id and of a Redis key."""
    if not is_consumer_name(name) or name.isdecimal():
        raise RegistrationError(
            f"{what} name {name!r}: use letters, digits, '.', '-' and '_', not only digits, at most 200 of them"
        )
    return name


def check_topic(event: type[E], where: str) -> type[E]:
    """`event`, when it can be routed."""
    if not event.event_type.topic:
        raise RegistrationError(f'{where}: {event.__name__} has no topic; declare it with topic="…"')
    return event


def _check_on_duplicate(policy: OnDuplicate, where: str) -> OnDuplicate:
    if policy not in ("skip", "raise"):
        raise RegistrationError(f"{where} says on_duplicate={policy!r}: it is 'skip' or 'raise'")
    return policy
