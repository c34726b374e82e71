"""Schedules as code declares them: checked where they stand, and made into what engines keep."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from pydantic import AwareDatetime

from homing.app.handlers import Handler
from homing.app.options import Policy
from homing.cron import parse_cron
from homing.errors import PayloadError, RegistrationError
from homing.events.codec import check_json, dump_json, encode_payload
from homing.events.envelope import foreign_id
from homing.events.event import Event
from homing.queue.schedules import LONGEST_ID, Schedule
from homing.queue.template import template_options

SHORTEST = timedelta(seconds=1)
LOWEST_PRIORITY = 2_097_151


class Tick(Event, topic="homing.tick", unrouted=True):
    """What a handler with a schedule gets: which schedule it is, and the time for which it runs, however late that is."""

    schedule: str
    due_at: AwareDatetime


@dataclass(frozen=True, slots=True, kw_only=True)
class When:
    """When a schedule fires, as `@queue.schedule` takes it."""

    cron: str | None
    zone: str | None
    every: timedelta | None
    start: datetime | None
    end: datetime | None
    limit: int | None
    immediate: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredSchedule:
    """A schedule of a queue, from the code at `location`."""

    queue: str
    schedule: Schedule
    location: str = field(compare=False, default="")


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The jobs that a schedule makes: their name and terms; `event`: what their handler takes, `None` where nobody here knows."""

    job_name: str
    policy: Policy
    event: type[Event] | None
    location: str


def target_of(handler: Handler) -> Target:
    """The jobs of a handler."""
    return Target(job_name=handler.job_name, policy=handler.policy, event=handler.event, location=handler.location)


def make_schedule(
    queue: str, name: str, when: When, target: Target, *, data: Event | Mapping[str, Any] | None, priority: int
) -> Schedule:
    """What engines keep of a schedule; a `RegistrationError` says what is wrong with it, and where it stands."""
    where = f"schedule {name!r} of queue {queue!r} ({target.location})"
    _check_name(name, where)
    _check_when(when, where)
    if not 0 <= priority <= LOWEST_PRIORITY:
        raise RegistrationError(f"{where} has priority={priority}: it lies between 0 and {LOWEST_PRIORITY}")
    policy = target.policy
    schedule = Schedule(
        id=name,
        job_name=target.job_name,
        data=_text(queue, name, data, target, where),
        options=template_options(
            attempts=policy.attempts,
            backoff=policy.backoff,
            keep_completed=policy.keep_completed,
            keep_failed=policy.keep_failed,
            priority=priority,
        ),
        cron=when.cron,
        zone=when.zone or "UTC",
        every_ms=None if when.every is None else round(when.every.total_seconds() * 1000),
        start_ms=_milliseconds(when.start),
        end_ms=_milliseconds(when.end),
        limit=when.limit,
        immediate=when.immediate,
    )
    if not schedule.is_whole:
        raise RegistrationError(f"{where} has times or numbers that are none: {when}")
    return schedule


def _check_name(name: str, where: str) -> None:
    if not isinstance(name, str) or not 0 < len(name) <= LONGEST_ID or name != name.strip() or not name.isprintable():
        raise RegistrationError(f"{where}: its name is 1 to {LONGEST_ID} printable characters, without spaces around")
    if name.rpartition(":")[2].isdecimal() and ":" in name:
        raise RegistrationError(
            f"{where}: its name looks like a tick of the schedule {name.rpartition(':')[0]!r}: end it otherwise"
        )


def _check_when(when: When, where: str) -> None:
    if (when.cron is None) == (when.every is None):
        raise RegistrationError(f'{where} fires by cron="30 2 * * *" or by every=minutes(15): say one of them')
    if when.cron is not None:
        try:
            parse_cron(when.cron, when.zone or "UTC")
        except ValueError as error:
            raise RegistrationError(f"{where}: {error}") from error
    if when.every is not None:
        _check_interval(when, where)
    for name, value in (("start", when.start), ("end", when.end)):
        if value is not None and value.tzinfo is None:
            raise RegistrationError(f"{where} has {name}={value}: a time without a zone is none, say which")
    if when.start is not None and when.end is not None and when.end <= when.start:
        raise RegistrationError(f"{where} ends at {when.end}, before it starts at {when.start}")
    if when.limit is not None and when.limit < 1:
        raise RegistrationError(f"{where} has limit={when.limit}: at least one tick, or leave it out")
    if when.immediate and when.start is not None:
        raise RegistrationError(f"{where} has immediate=True and a start: say one of them")


def _check_interval(when: When, where: str) -> None:
    if when.every is not None and when.every < SHORTEST:
        raise RegistrationError(f"{where} has every={when.every}: at least {SHORTEST}")
    if when.zone is not None:
        raise RegistrationError(f"{where} has every= and a zone: an interval is the same in all of them, leave it out")
    if when.immediate:
        raise RegistrationError(
            f"{where} has every= and immediate=True: an interval begins at once anyway, leave it out"
        )


def _text(queue: str, name: str, data: Event | Mapping[str, Any] | None, target: Target, where: str) -> str:
    """The data of every tick. The envelope's id is made from the names, so that all processes say the same; a tick is known by its job's id."""
    if target.event is not None and target.event is not Tick and not isinstance(data, target.event):
        given = "nothing" if data is None else type(data).__name__
        wanted = target.event.__name__
        raise RegistrationError(
            f"{where} gives its handler {given}, which takes {wanted}: say data={wanted}(…), or let it take a Tick"
        )
    if target.event is Tick and data is not None:
        raise RegistrationError(
            f"{where} has data={type(data).__name__}(…), but its handler takes Tick: let it take that event"
        )
    try:
        if isinstance(data, Mapping):
            check_json(dict(data), where)
            return dump_json(dict(data))
        payload = {"schedule": name} if data is None else encode_payload(data)
    except (PayloadError, TypeError, ValueError) as error:
        raise RegistrationError(f"{where}: {error}") from error
    version = {} if data is None or data.event_type.version == 1 else {"version": data.event_type.version}
    return dump_json({"eventId": str(foreign_id(queue, name, 0)), **version, "payload": payload})


def _milliseconds(moment: datetime | None) -> int | None:
    return None if moment is None else round(moment.timestamp() * 1000)
