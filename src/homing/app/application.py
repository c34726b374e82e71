"""The app object: what an application declares. Building it reads no variable, opens nothing and imports no handler."""

import importlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Literal

from homing.app.consumers import Consumer, Route, kept_too_short
from homing.app.declared import Queue, check_name
from homing.app.handlers import Handler
from homing.app.limit_keys import LimitKey
from homing.app.options import Keep, Options, RateLimit, Retry
from homing.app.resources import Lifespan, LifespanFunction
from homing.app.schedules import DeclaredSchedule
from homing.client import Client, Clients, make_engine
from homing.config.settings import Settings, load_settings
from homing.errors import ConfigurationError, RegistrationError
from homing.events.event import Event, known_events


class Homing:
    """An application's queues, handlers and resources.

    `name` is the key prefix and the label; `include` names the modules that hold handlers: workers and relays import them, a web
    process that only records never does. The other arguments are the options of every queue that does not say otherwise.
    """

    def __init__(
        self,
        name: str,
        *,
        include: Sequence[str] = (),
        retry: Retry | None = None,
        keep_completed: Keep | None = None,
        keep_failed: Keep | None = None,
        timeout: timedelta | None = None,
        deadline: timedelta | None = None,
        settings: Settings | None = None,
    ) -> None:
        self.name = check_name("app", name)
        self._include = tuple(include)
        self._options = Options(
            retry=retry, keep_completed=keep_completed, keep_failed=keep_failed, timeout=timeout, deadline=deadline
        )
        self._settings = settings
        self._queues: dict[str, Queue] = {}
        self._handlers: dict[str, Handler] = {}
        self._by_queue: dict[str, dict[str, Handler]] = {}
        self._consumers: dict[str, Consumer] = {}
        self._schedules: dict[tuple[str, str], DeclaredSchedule] = {}
        self._lifespan: Lifespan | None = None
        self._clients = Clients(lambda: make_engine(self.settings, self.name))

    @property
    def settings(self) -> Settings:
        """The settings in force, read from the environment at the first use."""
        if self._settings is None:
            self._settings = load_settings()
        return self._settings

    def use(self, settings: Settings) -> None:
        """Run with these settings instead of the environment's: for the command line and for tests."""
        self._settings = settings

    def queue(
        self,
        name: str,
        *,
        concurrency: int | None = None,
        global_concurrency: int | None = None,
        limit: RateLimit | None = None,
        limit_key: LimitKey | None = None,
        key_limit: RateLimit | None = None,
        throttle: Literal["queue", "job", "key"] | None = None,
        retry: Retry | None = None,
        keep_completed: Keep | None = None,
        keep_failed: Keep | None = None,
        timeout: timedelta | None = None,
        deadline: timedelta | None = None,
        alert: Literal["each", "growth"] = "growth",
        other_producers: bool = False,
    ) -> Queue:
        """Declare a queue.

        `concurrency`: handlers at work at once per worker process; `global_concurrency`: over all workers together, Node's too; `limit`: starts
        over all workers together. `limit_key`: a field of the queue's events, such as `"tenant_id"`, or a function of them; `key_limit`:
        starts of each key over all workers of ours. A job whose key is used up waits for its turn and costs the others nothing.
        `throttle`: what waits after a `Throttled` that does not say, all jobs with that `key` (so where there is a `limit_key`), the whole
        `queue` (so where it has a `limit`) or that `job` alone. `alert`: whether `each` dead letter of the queue is worth waking somebody, or
        only their `growth`; the alert rules read it. `other_producers`: other programs add jobs too, and what the engine keeps of them must
        not outlast the inbox, which start and `homing check` then see to.
        """
        if name in self._queues:
            raise RegistrationError(f"queue {name!r} is declared twice: declare it once and import it")
        own = Options(
            retry=retry, keep_completed=keep_completed, keep_failed=keep_failed, timeout=timeout, deadline=deadline
        )
        queue = Queue(
            self,
            name,
            own.over(self._options),
            concurrency=concurrency,
            global_concurrency=global_concurrency,
            limit=limit,
            limit_key=limit_key,
            key_limit=key_limit,
            throttle=throttle,
            alert=alert,
            other_producers=other_producers,
        )
        self._queues[name] = queue
        return queue

    def lifespan(self, function: LifespanFunction) -> LifespanFunction:
        """Decorate the async generator that provides the resources of a worker process and closes them afterwards."""
        if self._lifespan is not None:
            raise RegistrationError(f"app {self.name!r} has two lifespans: provide everything from one")
        self._lifespan = asynccontextmanager(function)
        return function

    def register(self, handler: Handler) -> None:
        """Take a handler; a second one under the same name, consumer or alias is refused."""
        self._refuse_double(handler)
        self._handlers[handler.consumer] = handler
        self._by_queue.setdefault(handler.queue, {})[handler.job_name] = handler

    def register_consumer(self, consumer: Consumer) -> None:
        """Take the consumer of another system; a second one under the same name, consumer or alias is refused."""
        self._refuse_double(consumer)
        self._consumers[consumer.consumer] = consumer

    @property
    def client(self) -> Client:
        """What `queue.enqueue` sends with: of the running event loop, connected at its first use."""
        return self._clients.current()

    async def close(self) -> None:
        """Close what the running event loop opened to enqueue: at the end of a web process's lifespan, for instance. Workers do it themselves."""
        await self._clients.close()

    def handlers_of(self, queue: str) -> Mapping[str, Handler]:
        """The handlers of a queue that this process has imported, by job name."""
        return self._by_queue.get(queue, {})

    def handler_of(self, consumer: str) -> Handler | None:
        """The handler that this process has imported under a consumer's name."""
        return self._handlers.get(consumer)

    def register_schedule(self, declared: DeclaredSchedule) -> None:
        """Take a schedule; another one of its name in the same queue is refused."""
        known = self._schedules.setdefault((declared.queue, declared.schedule.id), declared)
        if known != declared:
            raise RegistrationError(
                f"queue {declared.queue!r} has two schedules {declared.schedule.id!r}: {known.location} and {declared.location}"
            )

    @property
    def schedules(self) -> tuple[DeclaredSchedule, ...]:
        """The declared schedules, by queue and name. Call `load` first."""
        return tuple(self._schedules[key] for key in sorted(self._schedules))

    def load(self) -> None:
        """Import the modules of `include`; importing twice is importing once."""
        for module in self._include:
            try:
                importlib.import_module(module)
            except ModuleNotFoundError as error:
                if error.name is None or not (module + ".").startswith(error.name + "."):
                    raise
                raise ConfigurationError(
                    f"app {self.name!r} includes {module!r}, which is not there: {error}"
                ) from error

    @property
    def handlers(self) -> tuple[Handler, ...]:
        """The registered handlers, in the order of their consumers' names. Call `load` first."""
        return tuple(self._handlers[name] for name in sorted(self._handlers))

    @property
    def consumers(self) -> tuple[Consumer, ...]:
        """The consumers of other systems, in the order of their names. Call `load` first."""
        return tuple(self._consumers[name] for name in sorted(self._consumers))

    @property
    def routes(self) -> tuple[Route, ...]:
        """Everything that events are routed to: handlers, and consumers of other systems."""
        return (*self.handlers, *self.consumers)

    @property
    def queues(self) -> tuple[Queue, ...]:
        """The declared queues, by name."""
        return tuple(self._queues[name] for name in sorted(self._queues))

    @property
    def served_queues(self) -> tuple[Queue, ...]:
        """The queues that workers of this app claim from: all but those whose consumers are all in other systems."""
        ours = {handler.queue for handler in self._handlers.values()}
        theirs = {consumer.queue for consumer in self._consumers.values()} - ours
        return tuple(queue for queue in self.queues if queue.name not in theirs)

    @property
    def open_resources(self) -> Lifespan | None:
        """The lifespan, as a context manager of a provider."""
        return self._lifespan

    def problems(self) -> list[str]:
        """What would go wrong at run time and can be seen from the code alone; empty when all is well. Call `load` first."""
        return [*self._unrouted_events(), *self._double_topics(), *self._trimmed_jobs()]

    def check(self) -> None:
        """Raise a `RegistrationError` with all problems at once, if there are any."""
        problems = self.problems()
        if problems:
            raise RegistrationError("; ".join(problems))

    def _own_events(self) -> list[type[Event]]:
        """The event classes of the packages that `include` names, those beside handlers, and those that handlers consume."""
        roots = {module.partition(".")[0] for module in self._include}
        beside = {handler.function.__module__ for handler in self._handlers.values()}
        handled = {route.event for route in self.routes}
        return [
            cls
            for cls in known_events()
            if cls.__module__.partition(".")[0] in roots or cls.__module__ in beside or cls in handled
        ]

    def _unrouted_events(self) -> Iterator[str]:
        routed = {route.topic for route in self.routes}
        for cls in self._own_events():
            if cls.event_type.topic not in routed and not cls.event_type.unrouted:
                yield (
                    f"nobody consumes {cls.event_type.topic!r} ({cls.__module__}.{cls.__qualname__}): "
                    "register a handler on it, or declare it with unrouted=True"
                )

    def _double_topics(self) -> Iterator[str]:
        seen: dict[str, type[Event]] = {}
        for cls in self._own_events():
            other = seen.setdefault(cls.event_type.topic, cls)
            if other is not cls:
                yield f"topic {cls.event_type.topic!r} is declared by {other.__qualname__} and by {cls.__qualname__}"

    def _trimmed_jobs(self) -> Iterator[str]:
        """Keep rules are a queue's: what one job of it lets go, it lets go of all."""
        foreign = {consumer.queue: consumer for consumer in self.consumers if consumer.mode == "foreign"}
        for route in self.routes:
            beside = foreign.get(route.queue)
            if beside is None or route is beside:
                continue
            for option in ("keep_completed", "keep_failed"):
                if problem := kept_too_short(option, getattr(route.policy, option)):
                    yield f"{route.consumer} shares queue {route.queue!r} with the foreign {beside.consumer}, {problem}"

    def _refuse_double(self, new: Route) -> None:
        """What is declared twice is one; different things under one name, or under one queue and job, are refused."""
        for other in self.routes:
            names = {new.consumer, *new.aliases} & {other.consumer, *other.aliases}
            if names and not _same(other, new):
                raise RegistrationError(f"two handlers are called {min(names)!r}: {other.location} and {new.location}")
            if (other.queue, other.job_name) == (new.queue, new.job_name) and other.consumer != new.consumer:
                raise RegistrationError(
                    f"queue {new.queue!r} has two handlers of job {new.job_name!r}: {other.location} and {new.location}"
                )

    def __repr__(self) -> str:
        return f"<Homing {self.name!r} queues={[queue.name for queue in self.queues]} handlers={len(self._handlers)}>"


def _same(one: Route, other: Route) -> bool:
    if isinstance(one, Handler) and isinstance(other, Handler):
        return one.function is other.function
    return one == other
