"""A handler as it was declared: which event, which guarantee, which parameters. Everything is checked here, at registration."""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin, get_type_hints
from uuid import UUID

from homing.app.consumers import Mode
from homing.app.flows import Flow, SyncFlow
from homing.app.messages import MessageId
from homing.app.options import Policy
from homing.errors import PayloadError, RegistrationError
from homing.events.codec import check_json, dump_json
from homing.events.event import Event
from homing.queue.notes import LONGEST_LINE, MOST_PROGRESS_BYTES

S = TypeVar("S")


class TransactionMarker:
    """Tells `Transaction[...]` apart from a resource of the same type."""


Transaction = Annotated[S, TransactionMarker()]
"""`Transaction[AsyncSession]`: a session in the transaction that also settles the delivery.

What the handler writes through it commits together with the row that says it happened, or neither does. The transaction
belongs to Homing: commit, rollback and close are refused; `begin_nested` is free.
"""

Guarantee = Literal["once", "at least once"]

OnDuplicate = Literal["skip", "raise"]
"""What becomes of a job whose delivery an earlier run settled: it completes with that run's result, or it fails in the engine."""

Told = Literal["progress", "line"]
"""What a run may tell: how far it is, as JSON text, or a line for people."""

Kind = Literal["async", "thread", "process"]
"""Where a handler runs: `async def` on the event loop, `def` in a thread of its own, `def` with `cpu=True` in a child process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What a handler may ask about the run it is in. `attempt` counts from 1 since the last dispatch."""

    id: str
    queue: str
    name: str
    consumer: str
    event_id: UUID
    trace_id: str
    attempt: int
    attempts: int
    generation: int
    recorded_at: datetime
    _told_to_end: Callable[[], bool] = field(default=lambda: False, repr=False, compare=False)
    _tell: Callable[[Told, str], None] = field(default=lambda _kind, _text: None, repr=False, compare=False)

    @property
    def told_to_end(self) -> bool:
        """Whether the run should end: its time is up, the worker stops, or another run has its lease.

        A coroutine is cancelled, a child process is killed; only a `def` in a thread has to look.
        """
        return self._told_to_end()

    def progress(self, value: object) -> None:
        """Show how far the run is: a number, or any small JSON value. The last one stays with the job.

        Call it from wherever the handler runs. It waits for nothing, and an engine that is away costs the run nothing but this note. A
        `PayloadError` for what is no JSON, or too long.
        """
        self._tell("progress", _progress_text(value))

    def log(self, line: str) -> None:
        """Add a line to the job's own log, for people who look at the job; as `progress` otherwise. The last thousand lines stay."""
        self._tell("line", str(line)[:LONGEST_LINE])


ParameterKind = Literal["transaction", "job", "flow", "resource"]
"""What fills a parameter of a handler: its transaction, the view of its job, the children of it, or a resource of the application."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a handler besides the event: what fills it is decided by its type, never by its name."""

    name: str
    kind: ParameterKind
    type: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Handler:
    """A consumer of one topic: the function, where it stands, and the terms under which it runs."""

    consumer: str
    queue: str
    job_name: str
    event: type[Event]
    function: Callable[..., Any]
    guarantee: Guarantee
    policy: Policy
    parameters: tuple[Parameter, ...]
    kind: Kind = "async"
    batch: int | None = None
    aliases: tuple[str, ...] = ()
    message_id: MessageId | None = None
    on_duplicate: OnDuplicate = "skip"
    location: str = field(compare=False, default="")

    @property
    def topic(self) -> str:
        """The topic it consumes."""
        return self.event.event_type.topic

    @property
    def mode(self) -> Mode:
        """How its deliveries are settled."""
        return "tx" if self.guarantee == "once" else "after"

    @property
    def transaction(self) -> Parameter | None:
        """The parameter that takes the transaction; `None` for handlers that run at least once."""
        return next((parameter for parameter in self.parameters if parameter.kind == "transaction"), None)

    @property
    def takes_flow(self) -> bool:
        """Whether it may wait for children."""
        return any(parameter.kind == "flow" for parameter in self.parameters)

    def takes(self, kind: ParameterKind) -> bool:
        """Whether one of its parameters is of this kind."""
        return bool(self.parameters) and any(parameter.kind == kind for parameter in self.parameters)

    def result_of_one(self, value: Any) -> Any:
        """The result of the one event that it was called with, from what it returned: a batch handler returns one per event."""
        is_list = self.batch is not None and isinstance(value, (list, tuple)) and len(value) == 1
        return value[0] if is_list else value


def _progress_text(value: object) -> str:
    check_json(value, "the progress")
    try:
        text = dump_json(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise PayloadError(f"the progress {value!r} is no JSON value: {error}") from error
    if len(text.encode()) > MOST_PROGRESS_BYTES:
        raise PayloadError(
            f"the progress is longer than {MOST_PROGRESS_BYTES:,} bytes of JSON: it is for people who look"
        )
    return text


def inspect_parameters(
    function: Callable[..., Any],
    event: type[Event],
    *,
    at_least_once: bool,
    cpu: bool = False,
    batch: int | None = None,
) -> tuple[Parameter, ...]:
    """Read a handler's signature, or raise a `RegistrationError` that names file, line and remedy."""
    where = describe_function(function)
    if not inspect.isfunction(function) and not inspect.ismethod(function):
        raise RegistrationError(f"{where} is {type(function).__name__}, not a function: wrap it in a `def`")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise RegistrationError(f"{where} is a generator: a handler does its work and returns")
    first, *rest = _typed_parameters(function, where)
    if batch is not None:
        first = (first[0], _check_batch(where, first[1], batch))
    if not (inspect.isclass(first[1]) and issubclass(event, first[1]) and issubclass(first[1], Event)):
        raise RegistrationError(
            f"{where} is registered on={event.__name__}, but its first parameter {first[0]!r} is {_name(first[1])}: "
            f"annotate it as {event.__name__}"
        )
    parameters = tuple(_classify(name, annotation) for name, annotation in rest)
    for parameter in parameters:
        if isinstance(parameter.type, TypeVar):
            raise RegistrationError(
                f"{where}: {parameter.name!r} is {parameter.type}: say which session, as in Transaction[AsyncSession]"
            )
    _check_guarantee(where, parameters, at_least_once=at_least_once)
    if cpu and batch is not None:
        raise RegistrationError(f"{where} says cpu=True and batch={batch}: a child process takes one event at a time")
    if cpu:
        _check_cpu(where, function, parameters)
    _check_flow(where, function, parameters, batch=batch)
    return parameters


def kind_of(function: Callable[..., Any], *, cpu: bool) -> Kind:
    """Where the function runs."""
    if cpu:
        return "process"
    return "async" if inspect.iscoroutinefunction(function) else "thread"


def describe_function(function: Callable[..., Any]) -> str:
    """`name (file:line)`, for messages."""
    code = getattr(function, "__code__", None)
    name = getattr(function, "__qualname__", repr(function))
    return name if code is None else f"{name} ({code.co_filename}:{code.co_firstlineno})"


def _typed_parameters(function: Callable[..., Any], where: str) -> list[tuple[str, Any]]:
    try:
        hints = get_type_hints(function, include_extras=True)
    except (NameError, AttributeError, SyntaxError, TypeError) as error:
        raise RegistrationError(
            f"{where}: {error}; annotations of handlers must be resolvable where they stand"
        ) from error
    parameters = list(inspect.signature(function).parameters.values())
    if not parameters:
        raise RegistrationError(f"{where} takes no parameter: the first one is the event")
    for parameter in parameters:
        _check_kind(parameter, where, is_event=parameter is parameters[0])
        if parameter.name not in hints:
            raise RegistrationError(f"{where}: parameter {parameter.name!r} has no type, and types decide what it gets")
    return [(parameter.name, hints[parameter.name]) for parameter in parameters]


def _check_kind(parameter: inspect.Parameter, where: str, *, is_event: bool) -> None:
    """The event is handed over by position, everything else by name."""
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        raise RegistrationError(f"{where} takes *{parameter.name}: name each resource with its type instead")
    if is_event and parameter.kind is parameter.KEYWORD_ONLY:
        raise RegistrationError(f"{where}: {parameter.name!r} stands behind a *, but the event comes first: move it")
    if not is_event and parameter.kind is parameter.POSITIONAL_ONLY:
        raise RegistrationError(f"{where}: {parameter.name!r} stands before a /, but is given by its name: move the /")


def _classify(name: str, annotation: Any) -> Parameter:
    if get_origin(annotation) is Annotated:
        inner, *marks = get_args(annotation)
        if any(isinstance(mark, TransactionMarker) for mark in marks):
            return Parameter(name, "transaction", inner)
        annotation = inner
    if annotation is Flow or annotation is SyncFlow:
        return Parameter(name, "flow", annotation)
    return Parameter(name, "job" if annotation is Job else "resource", annotation)


def _check_guarantee(where: str, parameters: tuple[Parameter, ...], *, at_least_once: bool) -> None:
    transactions = [parameter.name for parameter in parameters if parameter.kind == "transaction"]
    if len(transactions) > 1:
        raise RegistrationError(
            f"{where} takes {len(transactions)} transactions ({', '.join(transactions)}): one settles"
        )
    if transactions and at_least_once:
        raise RegistrationError(
            f"{where} takes Transaction[...] ({transactions[0]!r}) and says at_least_once=True: its effect is once, drop the latter"
        )
    if not transactions and not at_least_once:
        raise RegistrationError(
            f"{where} takes no Transaction[...], so it may run more than once: say at_least_once=True, or take the transaction"
        )


def _check_flow(
    where: str, function: Callable[..., Any], parameters: tuple[Parameter, ...], *, batch: int | None
) -> None:
    """Coroutines await their children, plain functions cannot; and children belong to one job."""
    flow = next((parameter for parameter in parameters if parameter.kind == "flow"), None)
    if flow is None:
        return
    if batch is not None:
        raise RegistrationError(
            f"{where} says batch={batch} and takes {flow.name!r}: a flow belongs to one event, not to many"
        )
    wanted = Flow if inspect.iscoroutinefunction(function) else SyncFlow
    if flow.type is not wanted:
        kind = "async def" if wanted is Flow else "a plain def"
        raise RegistrationError(f"{where} is {kind} and takes {flow.name!r}: annotate it as {wanted.__name__}")


def _check_batch(where: str, annotation: Any, batch: int) -> Any:
    """The event class inside `Sequence[...]`, when the handler may take batches."""
    if batch < 1:
        raise RegistrationError(f"{where} says batch={batch}: at least 1 event a call")
    if get_origin(annotation) not in (Sequence, list) or not get_args(annotation):
        raise RegistrationError(
            f"{where} says batch={batch}: annotate its first parameter as Sequence[...] of the event"
        )
    return get_args(annotation)[0]


def _check_cpu(where: str, function: Callable[..., Any], parameters: tuple[Parameter, ...]) -> None:
    """A child process has neither our transaction nor our resources, and finds the function by its name."""
    if inspect.iscoroutinefunction(function):
        raise RegistrationError(
            f"{where} is `async def` and says cpu=True: work that fills a processor is a plain `def`"
        )
    for parameter in parameters:
        if parameter.kind != "job":
            raise RegistrationError(
                f"{where} says cpu=True and takes {parameter.name!r}: a child process has no transaction and no resources; "
                "compute there, and record an event for the rest"
            )
    if "<locals>" in function.__qualname__ or function.__name__ == "<lambda>":
        raise RegistrationError(
            f"{where} says cpu=True and is defined inside a function: a child process cannot find it"
        )


def _name(annotation: Any) -> str:
    return getattr(annotation, "__name__", repr(annotation))
