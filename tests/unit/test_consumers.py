"""Consumers in other systems: what may be declared, and what contradicts itself."""

import pytest

from homing import FOREVER, Event, Homing, Keep
from homing.durations import days, hours, minutes
from homing.errors import RegistrationError


class Placed(Event, topic="consumers.placed"):
    number: int = 0


def test_a_declared_consumer_is_a_route_and_no_handler() -> None:
    """Its event is routed to its queue under its name; there is nothing to run, so that no worker claims from a queue of its own."""
    app = Homing("test")
    labels, mixed = app.queue("labels"), app.queue("mixed", keep_completed=Keep(age=days(2)))
    labels.consumer("print", on=Placed, foreign=True)
    mixed.consumer("export", on=Placed, elsewhere=True, consumer="warehouse")

    @mixed.handler("do", on=Placed, at_least_once=True)
    async def do(event: Placed) -> None: ...

    assert app.problems() == []
    assert [(route.consumer, route.queue, route.job_name, route.mode) for route in app.routes] == [
        ("mixed.do", "mixed", "do", "after"),
        ("labels.print", "labels", "print", "foreign"),
        ("warehouse", "mixed", "export", "elsewhere"),
    ]
    assert [handler.consumer for handler in app.handlers] == ["mixed.do"]
    assert [queue.name for queue in app.served_queues] == ["mixed"]


def test_jobs_of_other_systems_are_kept_by_age() -> None:
    """Where nobody says anything, no count takes a finished job before the look has seen it."""
    app = Homing("test")
    app.queue("labels").consumer("print", on=Placed, foreign=True)
    (consumer,) = app.consumers
    assert (consumer.policy.keep_completed.count, consumer.policy.keep_completed.age_seconds) == (None, 86_400)
    assert consumer.policy.keep_failed.count is None


@pytest.mark.parametrize(("modes", "text"), [({}, "neither"), ({"foreign": True, "elsewhere": True}, "both")])
def test_exactly_one_mode_is_said(modes: dict[str, bool], text: str) -> None:
    """Which of the two it is decides what is promised: it is never guessed."""
    with pytest.raises(RegistrationError, match=text):
        Homing("test").queue("labels").consumer("print", on=Placed, **modes)  # type: ignore[arg-type]  # two switches


@pytest.mark.parametrize(
    ("keep", "text"),
    [
        ({"keep_completed": Keep(age=minutes(10))}, "keep_completed keeps jobs for 10m: the look needs 3h"),
        ({"keep_failed": Keep(age=hours(2))}, "keep_failed keeps jobs for 2h: the look needs 3h"),
        ({"keep_completed": Keep(age=days(1), count=1000)}, "keep_completed keeps 1,000 jobs however old they are"),
        ({"keep_failed": Keep(count=0)}, "keep_failed keeps 0 jobs"),
    ],
)
def test_finished_jobs_that_would_leave_unseen_are_refused(keep: dict[str, Keep], text: str) -> None:
    """A foreign consumer is settled from its finished jobs: the error names how long they stay and how long they must."""
    app = Homing("test")
    with pytest.raises(RegistrationError, match=text):
        app.queue("labels").consumer("print", on=Placed, foreign=True, **keep)  # type: ignore[arg-type]  # two options
    with pytest.raises(RegistrationError, match=text):
        app.queue("others", **keep).consumer("print", on=Placed, foreign=True)  # type: ignore[arg-type]  # as above
    app.queue("handed").consumer("over", on=Placed, elsewhere=True, **keep)  # type: ignore[arg-type]  # as above


def test_a_handler_beside_a_foreign_consumer_trims_its_jobs() -> None:
    """Keep rules hold for a whole queue: a handler with a count on the same queue is a problem that names both."""
    app = Homing("test")
    queue = app.queue("labels")
    queue.consumer("print", on=Placed, foreign=True, keep_completed=FOREVER)

    @queue.handler("do", on=Placed, at_least_once=True)
    async def do(event: Placed) -> None: ...

    (problem,) = app.problems()
    assert "labels.do shares queue 'labels' with the foreign labels.print" in problem
    assert "keep_completed keeps 10,000 jobs" in problem


def test_names_are_one_space() -> None:
    """A consumer elsewhere takes neither the name nor the job of a handler; declared twice alike it is one."""
    app = Homing("test")
    queue = app.queue("labels")

    @queue.handler("do", on=Placed, at_least_once=True)
    async def do(event: Placed) -> None: ...

    for _ in range(2):
        queue.consumer("print", on=Placed, elsewhere=True)
    assert len(app.consumers) == 1
    with pytest.raises(RegistrationError, match=r"two handlers are called 'labels\.do'"):
        queue.consumer("done", on=Placed, elsewhere=True, consumer="labels.do")
    with pytest.raises(RegistrationError, match="two handlers of job 'do'"):
        queue.consumer("do", on=Placed, elsewhere=True, consumer="another")
