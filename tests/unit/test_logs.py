"""Log lines: fields of the job, and values that try to break out of their line."""

import io
import json
import logging
import threading
from collections.abc import Iterator

import pytest

from homing.config.logs import LogFormat, configure_logging, log_fields

log = logging.getLogger("homing.tests.logs")

_NASTY = "one\ntwo\r\x1b[31mred\u2028next\x85end\ud800 và"


@pytest.fixture(autouse=True)
def _logging_as_it_was() -> Iterator[None]:
    """Leave the root logger as it was."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def written(log_format: LogFormat, stream: io.StringIO | None = None) -> io.StringIO:
    """Set logging up, and return where it goes."""
    stream = stream or io.StringIO()
    configure_logging("INFO", log_format, stream)
    return stream


def fail_with(text: str) -> None:
    """Raise an error whose text somebody else chose."""
    raise ValueError(text)


def test_json_lines_carry_the_fields_of_the_job() -> None:
    """Context fields, then a line's own, join level, logger, message and a time with its zone."""
    stream = written("json")
    with log_fields(trace_id="t-1", queue="payments"), log_fields(job="capture", attempt=2):
        log.warning("failed %s", "once", extra={"outcome": "retry"})
    log.info("outside")
    inside, outside = (json.loads(line) for line in stream.getvalue().splitlines())
    assert inside.pop("time").endswith("+00:00")
    assert inside == {
        "level": "warning",
        "logger": "homing.tests.logs",
        "message": "failed once",
        "trace_id": "t-1",
        "queue": "payments",
        "job": "capture",
        "attempt": 2,
        "outcome": "retry",
    }
    assert "trace_id" not in outside


@pytest.mark.parametrize("log_format", ["json", "pretty"])
def test_no_value_breaks_its_line(log_format: LogFormat) -> None:
    """Line ends, terminal codes and lone surrogates in message or fields are written as their numbers, on one line."""
    stream = written(log_format)
    with log_fields(job=_NASTY):
        log.info("%s", _NASTY)
    text = stream.getvalue()
    assert text.endswith("\n")
    assert text.removesuffix("\n").isprintable()
    assert "và" in text
    text.encode()


def test_json_keeps_the_value_exactly() -> None:
    """What was escaped on the way reads back as it was."""
    stream = written("json")
    log.info("%s", _NASTY)
    assert json.loads(stream.getvalue())["message"] == _NASTY


def test_a_traceback_cannot_pose_as_a_line() -> None:
    """In the format for people a traceback follows indented; in JSON it is one value."""
    for log_format in ("pretty", "json"):
        stream = written("pretty" if log_format == "pretty" else "json")
        try:
            fail_with(f"{_NASTY}\n12:00:00 INFO forged")
        except ValueError:
            log.exception("broken")
        first, *rest = stream.getvalue().removesuffix("\n").split("\n")
        assert "broken" in first
        assert all(line.startswith("    ") and line.isprintable() for line in rest)
        assert bool(rest) == (log_format == "pretty")


def test_auto_is_pretty_only_on_a_terminal() -> None:
    """`auto` writes JSON into a file or pipe."""

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    log.info("lost")
    piped = written("auto")
    log.info("seen")
    assert json.loads(piped.getvalue())["message"] == "seen"
    terminal = written("auto", Terminal())
    log.info("seen")
    assert " INFO    seen" in terminal.getvalue()
    assert piped.getvalue().count("\n") == 1


def test_other_threads_have_their_own_context() -> None:
    """A thread that did not copy the context writes lines without the job's fields."""
    stream = written("json")
    with log_fields(job="capture"):
        thread = threading.Thread(target=log.info, args=("elsewhere",))
        thread.start()
        thread.join()
    assert "job" not in json.loads(stream.getvalue())


@pytest.mark.parametrize("log_format", ["json", "pretty"])
def test_secrets_are_masked_wherever_they_stand(log_format: LogFormat) -> None:
    """Passwords in addresses and parameters, in messages, fields and tracebacks; what stands beside them is kept."""
    stream = written(log_format)
    with log_fields(server='postgresql://ada:s3cr"et@db:5432/shop, ask root@db', hosts=["redis://:s3cret@r:6379/0"]):
        try:
            fail_with("cannot connect to rediss://ada:s3cret@r:6379/0 (mail root@r)")
        except ValueError:
            log.exception("failed: host=db PASSWORD=s3cret user=ada")
    text = stream.getvalue()
    assert "s3c" not in text
    for kept in ("ada:***@db:5432/shop, ask root@db", "://:***@r:6379/0", "ada:***@r:6379/0 (mail root@r)", "user=ada"):
        assert kept in text


@pytest.mark.parametrize("log_format", ["json", "pretty"])
def test_a_value_of_any_length_leaves_a_bounded_line(log_format: LogFormat) -> None:
    """A megabyte in the message, a field, a list or an error is cut in its middle, with a word on how much is missing."""
    stream = written(log_format)
    long = "a" + "://:" * 250_000 + "z"
    with log_fields(event_id="e-1", job=long, seen=[long, 1]):
        try:
            fail_with(long)
        except ValueError:
            log.exception("%s", long)
    text = stream.getvalue()
    assert len(text) < 50_000
    assert "characters …]" in text
    assert "e-1" in text
    if log_format == "json":
        assert json.loads(text)["event_id"] == "e-1"


def test_people_are_not_told_what_is_the_same_everywhere() -> None:
    """The app and the worker stand in JSON lines only."""
    for log_format in ("pretty", "json"):
        stream = written("pretty" if log_format == "pretty" else "json")
        with log_fields(app="shop", worker="host:1:abc", queue="mail"):
            log.info("sent")
        assert ("host:1:abc" in stream.getvalue()) == (log_format == "json")
        assert "mail" in stream.getvalue()
