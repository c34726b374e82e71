"""Schedules in code: what is declared, and what is refused where it stands."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from homing import Event, Homing, Keep, Retry, Tick
from homing.durations import days, minutes, seconds
from homing.errors import RegistrationError
from homing.queue.schedules import Schedule


class Report(Event, topic="test.report-by-clock", unrouted=True):
    region: str


def _app() -> Homing:
    return Homing("shop", retry=Retry(attempts=5))


def test_a_function_with_a_schedule_is_a_handler_of_ticks() -> None:
    """Its job has the schedule's name, its terms are the queue's, and every process says the same of it."""

    def declare() -> tuple[Homing, Schedule]:
        app = _app()
        maintenance = app.queue("maintenance", keep_failed=Keep(age=days(3)))

        @maintenance.schedule("outbox-cleanup", cron="0 3 * * *", zone="Asia/Ho_Chi_Minh", at_least_once=True)
        async def clean(tick: Tick) -> None: ...

        return app, app.schedules[0].schedule

    app, schedule = declare()
    (handler,) = app.handlers
    assert (handler.consumer, handler.job_name, handler.event) == ("maintenance.outbox-cleanup", "outbox-cleanup", Tick)
    assert (schedule.id, schedule.job_name, schedule.cron, schedule.zone) == (
        "outbox-cleanup",
        "outbox-cleanup",
        "0 3 * * *",
        "Asia/Ho_Chi_Minh",
    )
    assert '"attempts": 5' in schedule.options
    assert '"removeOnFail": {"age": 259200}' in schedule.options
    assert declare()[1] == schedule
    assert app.problems() == []


def test_several_schedules_run_one_handler_with_data_of_their_own() -> None:
    """Stacked above a handler of an event; the event's own topic is not touched by it."""
    app = _app()
    reports = app.queue("reports")

    @reports.schedule(
        "report eu", every=minutes(15), data=Report(region="eu"), start=datetime(2027, 1, 1, tzinfo=UTC), limit=3
    )
    @reports.schedule("report us", cron="@daily", zone="America/New_York", data=Report(region="us"), priority=7)
    @reports.handler("make-report", on=Report, at_least_once=True)
    async def make(report: Report) -> None: ...

    eu, us = (declared.schedule for declared in app.schedules)
    assert (eu.job_name, eu.every_ms, eu.start_ms, eu.limit) == ("make-report", 900_000, 1_798_761_600_000, 3)
    assert '"region":"eu"' in eu.data
    assert '"region":"us"' in us.data
    assert '"priority": 7' in us.options
    assert len(app.handlers) == 1


WRONG: list[tuple[dict[str, Any], str]] = [
    ({}, "say one of them"),
    ({"cron": "* * * * *", "every": minutes(1)}, "say one of them"),
    ({"cron": "61 * * * *"}, "no cron pattern"),
    ({"cron": "0 3 * *"}, "5 fields"),
    ({"cron": "0 0 30 2 *"}, "cron pattern"),
    ({"cron": "0 3 * * *", "zone": "Europe/Pariss"}, "no IANA time zone"),
    ({"cron": "0 3 * * *", "zone": "../../etc/passwd"}, "no IANA time zone"),
    ({"every": timedelta(milliseconds=999)}, "at least 0:00:01"),
    ({"every": minutes(1), "zone": "UTC"}, "leave it out"),
    ({"every": minutes(1), "immediate": True}, "begins at once anyway"),
    ({"every": minutes(1), "start": datetime(2027, 1, 1)}, "a time without a zone"),  # noqa: DTZ001 - the case
    (
        {"every": minutes(1), "start": datetime(2027, 1, 1, tzinfo=UTC), "end": datetime(2026, 1, 1, tzinfo=UTC)},
        "before it starts",
    ),
    ({"every": minutes(1), "limit": 0}, "at least one tick"),
    ({"every": minutes(1), "priority": -1}, "priority=-1"),
    ({"every": minutes(1), "data": Report(region="eu")}, r"put @maintenance.handler\(…, on=Report\) below it"),
]


@pytest.mark.parametrize(("terms", "message"), WRONG)
def test_what_is_wrong_is_said_where_it_stands(terms: dict[str, Any], message: str) -> None:
    """With the schedule, the function and its line."""
    maintenance = _app().queue("maintenance")
    decorate: Callable[..., Any] = maintenance.schedule("nightly", **{"at_least_once": True} | terms)
    with pytest.raises(RegistrationError, match=message) as refusal:
        decorate(_nightly)
    assert "nightly" in str(refusal.value)
    assert "test_schedules_declared.py" in str(refusal.value)


async def _nightly(tick: Tick) -> None: ...


@pytest.mark.parametrize("name", ["", " a", "a" * 201, "a\nb", "nightly:1796090400000"])
def test_a_name_that_nobody_could_type_is_refused(name: str) -> None:
    """A schedule's name may be anything printable, a new handler's what a consumer's may be."""
    maintenance = _app().queue("maintenance")
    with pytest.raises(RegistrationError, match="name"):
        maintenance.schedule(name, every=seconds(5), at_least_once=True)(_nightly)


def test_one_name_is_one_schedule() -> None:
    """The same declaration twice is one; another one of the name is refused and both places are named."""
    app = _app()
    maintenance = app.queue("maintenance")
    first = maintenance.schedule("nightly", every=minutes(5), at_least_once=True)
    first(_nightly)
    maintenance.schedule("nightly", every=minutes(5))(_nightly)
    with pytest.raises(RegistrationError, match="two schedules 'nightly'"):
        maintenance.schedule("nightly", every=minutes(6))(_nightly)
    assert len(app.schedules) == 1


def test_options_of_a_handler_are_said_at_the_handler() -> None:
    """A schedule above a handler says when, and with what, and nothing else."""
    reports = _app().queue("reports")

    async def make(report: Report) -> None: ...

    reports.handler("make-report", on=Report, at_least_once=True)(make)
    loose: Callable[..., Any] = reports.schedule
    with pytest.raises(RegistrationError, match="say it there"):
        loose("eu", every=minutes(5), data=Report(region="eu"), timeout=seconds(5))(make)
    with pytest.raises(RegistrationError, match=r"which takes Report: say data=Report"):
        loose("eu", every=minutes(5))(make)
    with pytest.raises(RegistrationError, match="gives its handler Tick, which takes Report"):
        loose("eu", every=minutes(5), data=Tick(schedule="x", due_at=datetime(2027, 1, 1, tzinfo=UTC)))(make)
