"""The retention contract: what would run twice in silence is refused before it runs, naming both numbers."""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from homing import FOREVER, Event, Flow, Homing, Keep
from homing.app.options import DEFAULTS
from homing.app.retention import Contract, check_retention, outliving_jobs
from homing.cli.main import main
from homing.config.settings import Retention, Settings
from homing.durations import days, seconds
from homing.errors import ConfigurationError
from homing.processes.opening import open_process


class Paid(Event, topic="retention.paid", unrouted=True):
    amount: int = 1


def contract(retention: Retention | None = None, *, other_producers: bool = False, **options: Any) -> Contract:
    """The contract of an app with one handler."""
    app = Homing("test")

    @app.queue("mail", other_producers=other_producers).handler("send", on=Paid, at_least_once=True, **options)
    async def send(event: Paid) -> None:
        """Send."""

    return check_retention(app.queues, app.handlers, retention or Retention())


def test_the_shipped_windows() -> None:
    """Each number that ships: events and inbox 30 days, dead letters 90, completed jobs 1 and 10,000, failed jobs 14."""
    shipped = Settings().retention
    assert (shipped.events, shipped.inbox, shipped.dead_letters) == (days(30), days(30), days(90))
    assert DEFAULTS.keep_completed == Keep(age=days(1), count=10_000)
    assert DEFAULTS.keep_failed == Keep(age=days(14))
    assert DEFAULTS.deadline == days(14)
    assert contract(other_producers=True) == Contract((), ())


def test_what_children_have_done_is_remembered_as_long_as_their_parent_may_wait() -> None:
    """A parent whose deadline is longer than the inbox window is refused, and so the child that would be done again; a shorter one is not."""
    app = Homing("test")

    @app.queue("mail", deadline=days(31)).handler("send", on=Paid, at_least_once=True)
    async def send(event: Paid, flow: Flow) -> None:
        """Send, once others have."""

    (error,) = check_retention(app.queues, app.handlers, Retention()).errors
    assert "waits for children until its deadline of 31d, and HOMING_RETENTION__INBOX is 30d" in error
    assert check_retention(app.queues, app.handlers, Retention(inbox=days(31))).errors == ()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"keep_failed": FOREVER}, "keep_failed keeps finished ones for ever"),
        ({"keep_completed": Keep(age=days(31))}, "keep_completed keeps finished ones for 31d"),
        ({"keep_completed": Keep(count=5_000)}, "as the last 5,000, however old they are"),
        ({"deadline": days(31)}, "its deadline is 31d"),
    ],
)
def test_an_inbox_shorter_than_what_the_engine_keeps_is_refused(options: dict[str, Any], words: str) -> None:
    """A job of another producer that a person can retry after the inbox forgot it would run again: both numbers are named."""
    found = contract(other_producers=True, **options)
    (error,) = found.errors
    assert words in error
    assert "HOMING_RETENTION__INBOX is 30d" in error
    with pytest.raises(ConfigurationError, match="takes jobs of other producers"):
        found.require()
    assert contract(message_id="amount", **options).errors == found.errors
    assert contract(Retention(inbox=days(32)), other_producers=True, deadline=days(31)).errors == ()
    assert contract(**options).errors == ()


def test_queues_that_are_not_declared_are_known_by_what_would_be_wrong() -> None:
    """For the relay, which meets jobs of other producers where nobody declared them: the sentence to log, by queue."""
    app = Homing("test")
    for name, declared in (("known", True), ("unknown", False), ("fine", False)):
        keep = None if name == "fine" else FOREVER
        queue = app.queue(name, other_producers=declared, keep_failed=keep)
        queue.handler("send", on=Paid, at_least_once=True)(_send)
    told = outliving_jobs(app.queues, app.handlers, Retention())
    assert list(told) == ["unknown"]
    assert "keep_failed keeps finished ones for ever" in told["unknown"]


async def _send(event: Paid) -> None:
    """Send."""


def test_what_is_allowed_and_should_be_known_is_a_warning() -> None:
    """No evidence, endless growth with its size, and a window without effect are told, and run."""
    assert "count 0" in contract(keep_failed=Keep(count=0)).warnings[0]
    assert "86,400 jobs and 100 MB a day" in contract(keep_completed=FOREVER, keep_failed=FOREVER).warnings[0]
    assert contract(keep_failed=FOREVER) == Contract((), ())
    (warning,) = contract(Retention(dead_letters=days(10))).warnings
    assert "HOMING_RETENTION__DEAD_LETTERS is 10d and HOMING_RETENTION__EVENTS is 30d" in warning


def test_a_window_longer_than_any_calendar_is_refused() -> None:
    """What cannot be subtracted from a date is no setting."""
    with pytest.raises(ValueError, match="at most 36,500 days"):
        Retention(events=days(40_000))
    assert Retention(events=seconds(1)).events == seconds(1)


_BROKEN = """
from homing import FOREVER, Event, Homing

class Paid(Event, topic="retention.check"):
    amount: int

app = Homing("broken")

@app.queue("mail", other_producers=True).handler("send", on=Paid, at_least_once=True, keep_failed=FOREVER)
async def send(event: Paid) -> None: ...
"""


async def test_nothing_starts_on_a_broken_contract() -> None:
    """A worker and a relay refuse before they connect to anything."""
    app = Homing("test")

    @app.queue("mail", other_producers=True).handler("send", on=Paid, at_least_once=True, keep_failed=FOREVER)
    async def send(event: Paid) -> None:
        """Send."""

    nowhere = Settings(database_url="postgresql://127.0.0.1:1/none", redis_url="redis://127.0.0.1:1")
    with pytest.raises(ConfigurationError, match="takes jobs of other producers"):
        async with open_process(app, nowhere, "relay"):
            raise AssertionError("it started")


@pytest.mark.usefixtures("_logging_as_before")
def test_check_finds_a_broken_contract(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`homing check` tells it beforehand, with exit code 1."""
    (tmp_path / "retention_broken.py").write_text(_BROKEN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    assert main(["--app", "retention_broken:app", "check"]) == 1
    assert "mail.send takes jobs of other producers" in capsys.readouterr().err


@pytest.fixture
def _logging_as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
