"""From the children that a handler names to the jobs that carry them: always the same jobs for the same children. Pure."""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from homing.app.consumers import Route
from homing.app.flows import Child
from homing.app.handlers import Handler, describe_function
from homing.app.messages import message_in
from homing.errors import FlowError
from homing.events.codec import dump_json, encode_payload
from homing.events.envelope import foreign_id
from homing.events.event import aggregate_id
from homing.ids import JobId
from homing.outbox.headers import headers_for
from homing.queue.admission import LONGEST_ID
from homing.queue.flow_admission import MOST_JOBS
from homing.queue.flows import FlowJob
from homing.queue.job import NewJob
from homing.queue.parent import JobRef, OnFailure, Parent
from homing.trace import Trace

_KEY = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
_POLICIES = ("fail", "continue", "ignore", "remove")

LEVEL = "~"
"""Between the id of a job and the key of its child, in the child's id: in no key, and as it is in an address."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Above:
    """The job whose children are planned. `stem`: what their ids begin with; `timestamp_ms`: when the cause of all of them happened."""

    ref: JobRef
    stem: str
    timestamp_ms: int
    trace: Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """One child as it will be added. `message`: the id under which the ledger keeps what it came to; `below`: its descendants, parents first."""

    key: str
    message: UUID
    on_failure: OnFailure
    job: FlowJob
    below: tuple["Planned", ...] = ()

    @property
    def ref(self) -> JobRef:
        """Where its job is."""
        return self.job.ref

    @property
    def jobs(self) -> Iterator[FlowJob]:
        """Its job and those below it, parents before children."""
        yield self.job
        for child in self.below:
            yield from child.jobs


class Routes:
    """Whom children can be for: the handlers of an app, and its consumers in other systems."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self._routes = tuple(routes)

    def find(self, wanted: Callable[..., Any] | str) -> Route:
        """The one that is meant; a `FlowError` says who there is."""
        found = [route for route in self._routes if _is_meant(route, wanted)]
        if len(found) == 1:
            return found[0]
        name = repr(wanted) if isinstance(wanted, str) else describe_function(wanted)
        if found:
            raise FlowError(f"{name} handles {len(found)} jobs ({_names(found)}): name the one that is meant")
        raise FlowError(f"a child is for {name}, which is no handler of this app; there are: {_names(self._routes)}")


def plan(routes: Routes, above: Above, children: Sequence[Child]) -> tuple[Planned, ...]:
    """The children of a job, in order, each with what is below it; `FlowError` for what cannot be."""
    if len(children) > MOST_JOBS:
        raise _too_many(len(children))
    planned = tuple(_plan_one(routes, above, child) for child in children)
    _refuse_doubles(planned)
    if (number := sum(1 for child in planned for _ in child.jobs)) > MOST_JOBS:
        raise _too_many(number)
    return planned


def _refuse_doubles(planned: Iterable[Planned]) -> None:
    seen: set[str] = set()
    for child in planned:
        if child.key in seen:
            raise FlowError(f"two children are called {child.key!r}: give each a key that is always its own")
        seen.add(child.key)


def _too_many(number: int) -> FlowError:
    return FlowError(f"a flow of {number:,} jobs is more than {MOST_JOBS:,}: let each child fan out in its own turn")


def key_of(stem: str, job_id: str) -> str:
    """The key of a child among its parent's, from its id; the whole id of one that was added otherwise."""
    return job_id.removeprefix(stem + LEVEL)


def _plan_one(routes: Routes, above: Above, child: Child) -> Planned:
    route = routes.find(child.handler)
    if not isinstance(child.event, route.event):
        raise FlowError(f"{route.consumer} takes {route.event.__name__}, unlike {type(child.event).__name__}")
    if child.on_failure not in _POLICIES:
        raise FlowError(f"on_failure={child.on_failure!r} is none of {', '.join(_POLICIES)}")
    key = _checked_key(child, route)
    job_id = JobId(f"{above.stem}{LEVEL}{key}")
    if len(job_id) > LONGEST_ID:
        raise FlowError(f"the id of a job has at most {LONGEST_ID} characters, unlike {job_id!r}: use shorter keys")
    ref = JobRef(route.queue, job_id)
    message, data = _message(route, ref, above, child)
    job = _job(route, ref, above, child, data=data)
    inside = Above(ref=ref, stem=job_id, timestamp_ms=above.timestamp_ms, trace=above.trace)
    return Planned(
        key=key,
        message=message,
        on_failure=child.on_failure,
        job=FlowJob(queue=route.queue, job=job, waits=bool(child.children)),
        below=plan(routes, inside, child.children),
    )


def _checked_key(child: Child, route: Route) -> str:
    about = aggregate_id(child.event)
    key = child.key if child.key is not None else route.job_name if about is None else f"{route.job_name}-{about}"
    if not isinstance(key, str) or _KEY.fullmatch(key) is None:
        raise FlowError(
            f"the key {key!r} of a child for {route.consumer}: use up to 100 letters, digits, '.', '-', '_'"
        )
    return key


def _message(route: Route, ref: JobRef, above: Above, child: Child) -> tuple[UUID, str]:
    """The id and the data of a child. Both are the same whenever it is planned."""
    message = foreign_id(ref.queue, ref.id, above.timestamp_ms)
    headers = headers_for(child.event.event_type, above.trace)
    data = dump_json({"eventId": str(message), **headers, "payload": encode_payload(child.event)})
    if isinstance(route, Handler) and route.message_id is not None:
        message = message_in(data, route.message_id)
    return message, data


def _job(route: Route, ref: JobRef, above: Above, child: Child, *, data: str) -> NewJob:
    policy = route.policy
    return NewJob(
        id=ref.id,
        name=route.job_name,
        data=data,
        timestamp_ms=above.timestamp_ms,
        attempts=policy.attempts,
        backoff=policy.backoff,
        keep_completed=policy.keep_completed,
        keep_failed=policy.keep_failed,
        delay_seconds=_seconds(child.delay),
        priority=child.priority,
        traceparent=above.trace.traceparent,
        parent=Parent(above.ref, child.on_failure),
    )


def _seconds(delay: timedelta | float) -> float:
    seconds = delay.total_seconds() if isinstance(delay, timedelta) else float(delay)
    if not (math.isfinite(seconds) and seconds >= 0):
        raise FlowError(f"the delay of a child is a finite time of 0 or more, unlike {delay!r}")
    return seconds


def _is_meant(route: Route, wanted: Callable[..., Any] | str) -> bool:
    if isinstance(wanted, str):
        return wanted in (route.consumer, f"{route.queue}.{route.job_name}")
    return isinstance(route, Handler) and route.function is wanted


def _names(routes: Sequence[Route]) -> str:
    return ", ".join(sorted(route.consumer for route in routes)) or "none"
