"""`homing check`: whether what is about to run is declared in a way that can work."""

from datetime import UTC, datetime

import typer

from homing.app import Handler, Queue
from homing.app.consumers import Consumer
from homing.app.retention import check_retention
from homing.app.schedules import DeclaredSchedule
from homing.cli.apps import application_of
from homing.cli.exits import Exit
from homing.cli.output import show_error, show_json, show_table, show_text
from homing.cli.session import session_of
from homing.config.settings import Settings
from homing.durations import describe_seconds
from homing.errors import RegistrationError
from homing.queue.schedules import moment_of

_COLUMNS = ("consumer", "topic", "guarantee", "attempts", "horizon", "time-out")


MOST_SCHEDULES = 100
"""Schedules that are told one by one."""


def check_verb(context: typer.Context) -> None:
    """List the handlers, and whatever is declared wrongly. Shows guarantees, attempts and time-outs; connects to nothing."""
    session = session_of(context)
    settings = session.settings()
    handlers: tuple[Handler, ...] = ()
    consumers: tuple[Consumer, ...] = ()
    notes: list[str] = []
    try:
        app = application_of(settings)
        handlers, consumers, problems = app.handlers, app.consumers, app.problems()
        notes = [_sharing(queue) for queue in app.queues if queue.throttle == "queue"]
        notes += [_keyed(queue) for queue in app.queues if queue.limit_key is not None]
        notes += _mixed_queues(handlers, consumers)
        notes += [_scheduled(one) for one in app.schedules[:MOST_SCHEDULES]]
        contract = check_retention(app.queues, handlers, settings.retention)
        problems += contract.errors
        notes += contract.warnings
    except RegistrationError as error:
        problems = [str(error)]
    rows = [*(_row(handler, settings) for handler in handlers), *map(_row_elsewhere, consumers)]
    if session.json:
        listed = [dict(zip(_COLUMNS, row, strict=True)) for row in rows]
        show_json({"handlers": listed, "notes": notes, "problems": problems})
    else:
        show_table(_COLUMNS, rows)
        for note in notes:
            show_text(note)
        for problem in problems:
            show_error(problem)
    if problems:
        raise typer.Exit(Exit.FOUND_WRONG)


def _row(handler: Handler, settings: Settings) -> tuple[str, ...]:
    policy = handler.policy
    default_seconds = settings.attempt_timeout.total_seconds()
    return (
        handler.consumer,
        handler.topic,
        handler.guarantee,
        str(policy.attempts),
        policy.describe_horizon(),
        describe_seconds(default_seconds if policy.timeout_seconds is None else policy.timeout_seconds),
    )


def _row_elsewhere(consumer: Consumer) -> tuple[str, ...]:
    """How long a run may take is for the other system to say."""
    policy = consumer.policy
    return (
        consumer.consumer,
        consumer.topic,
        consumer.mode,
        str(policy.attempts),
        policy.describe_horizon(),
        "–",
    )


def _mixed_queues(handlers: tuple[Handler, ...], consumers: tuple[Consumer, ...]) -> list[str]:
    """Queues whose jobs meet workers that do not know them."""
    served = {handler.queue for handler in handlers}
    return [
        f"queue {consumer.queue} has handlers here and {consumer.consumer} in another system: each job may meet the wrong worker "
        "first, wait half a minute for the right one, or fail in Node; give each system a queue of its own"
        for consumer in consumers
        if consumer.queue in served
    ]


def _scheduled(one: DeclaredSchedule) -> str:
    """When a schedule fires next, if it is new."""
    schedule, now_ms = one.schedule, int(datetime.now(UTC).timestamp() * 1000)
    first_ms = schedule.first(now_ms, 0)
    when = (
        f"{schedule.cron} {schedule.zone}"
        if schedule.cron
        else f"every {describe_seconds((schedule.every_ms or 0) / 1000)}"
    )
    begins = (
        "its end has come"
        if first_ms is None
        else f"if it is new it begins at {moment_of(first_ms):%Y-%m-%d %H:%M:%S} UTC"
    )
    return f"schedule {schedule.id} of queue {one.queue} runs {schedule.job_name}: {when}; {begins}"


def _keyed(queue: Queue) -> str:
    """What an operator must know of Node workers on a queue with limits by key."""
    return f"queue {queue.name} limits by key: a Node worker that shares it knows no keys, and starts its jobs without asking"


def _sharing(queue: Queue) -> str:
    """What an operator must know of Node workers on a queue that may pause."""
    limit = queue.limit
    rate = (
        ""
        if limit is None
        else f"starts at most {limit.jobs} jobs per {describe_seconds(limit.per.total_seconds())} and "
    )
    return (
        f"queue {queue.name} {rate}pauses after Throttled, for all workers together: "
        "a Node worker that shares it heeds this only with a `limiter` set, unless its BullMQ is version 6 or newer"
    )
