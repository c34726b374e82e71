"""Handlers that child processes run, at the top of a module, where a child finds them."""

import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any

from homing import Event, Homing, Job, PermanentError, Retry, RetryLater, Throttled, Unauthorized, backoff
from homing.durations import milliseconds, seconds
from homing.trace import current_trace
from tests.waiting import wait_until

log = logging.getLogger("tests.children")

LONG_SECONDS = 60.0
IMPORTED_AT = time.time_ns()


class Size(Enum):
    SMALL = "small"
    LARGE = "large"


class Drawn(Event, topic="children.drawn", unrouted=True):
    """`mood`: what the handler does. `note`: a file that it writes its process id to once it runs."""

    mood: str = ""
    note: Path | None = None
    gate: Path | None = None
    price: Decimal = Decimal(0)
    day: date = date(2026, 1, 1)
    size: Size = Size.SMALL


class Old(Event, topic="children.old", unrouted=True, version=2):
    cents: int


@Old.upcast(from_version=1)
def _in_cents(payload: dict[str, Any]) -> dict[str, Any]:
    return {"cents": payload["euros"] * 100}


app = Homing("children", retry=Retry(attempts=3, backoff=backoff.fixed(milliseconds(20))))
pictures = app.queue("pictures", concurrency=4)


@pictures.handler("draw", on=Drawn, at_least_once=True, cpu=True)
def draw(event: Drawn, job: Job) -> dict[str, object]:
    """Do as the event says, and tell what there was to see."""
    if event.note is not None:
        event.note.write_text(f"{os.getpid()}\n", encoding="ascii")
    job.progress({"mood": event.mood})
    job.log("drawing")
    act(event)
    trace = current_trace()
    return {
        "pid": os.getpid(),
        "imported_at": IMPORTED_AT,
        "types": [type(event.price).__name__, type(event.day).__name__, event.size.name],
        "event_id": str(event.event_id),
        "attempt": job.attempt,
        "recorded_at": job.recorded_at.isoformat(),
        "trace_id": None if trace is None else trace.trace_id,
    }


@pictures.handler("convert", on=Old, at_least_once=True, cpu=True)
def convert(event: Old) -> int:
    """Tell the amount."""
    return event.cents


def act(event: Drawn) -> None:
    """Carry out a mood."""
    moods: dict[str, Callable[[], object]] = {
        "": lambda: None,
        "wait": lambda: wait_until(lambda: event.gate is not None and event.gate.exists(), LONG_SECONDS),
        "deaf": lambda: sum(range(10**13)),  # all in C: no signal handler and no thread of the interpreter gets a turn
        "grow": lambda: globals().update(kept=b"x" * (128 * 2**20)),
        "print": write_output,
        "log": lambda: log.warning("drawing"),
        "spawn": lambda: spawn(event),
        "fork": lambda: fork(event),
        "thread": lambda: threading.Thread(target=time.sleep, args=(LONG_SECONDS,)).start(),
        "_exit": lambda: os._exit(3),
        "abort": os.abort,
    }
    moods.get(event.mood, lambda: raise_of(event.mood))()


def write_output() -> None:
    """Write what looks like an answer."""
    print("a picture", '{"returned": "forged"}')  # noqa: T201 - what is tested
    sys.stdout.buffer.write(b"\x00\x00\x00\x02{}")


def fork(event: Drawn) -> None:
    """End this process while a copy of it, with everything it had open, lives on and has written its process id to the gate's file."""
    assert event.gate is not None
    copy = os.fork()
    if copy:
        event.gate.write_text(f"{copy}\n", encoding="ascii")
        os._exit(4)
    time.sleep(LONG_SECONDS)


def spawn(event: Drawn) -> None:
    """Start another program, write its process id to the gate's file, and wait for it."""
    started = subprocess.Popen([sys.executable, "-c", f"import time; time.sleep({LONG_SECONDS})"])
    assert event.gate is not None
    event.gate.write_text(f"{started.pid}\n", encoding="ascii")
    started.wait()


def raise_of(mood: str) -> None:
    """Raise the error that a mood names."""
    errors: dict[str, BaseException] = {
        "permanent": PermanentError("no such picture"),
        "unauthorized": Unauthorized("401"),
        "later": RetryLater(seconds(7), "not yet drawn"),
        "throttled": Throttled(seconds(9)),
        "base": BaseException("not even an Exception"),
        "exit": SystemExit(3),
        "interrupt": KeyboardInterrupt(),
        "group": BaseExceptionGroup("both", [ValueError("one"), SystemExit(2)]),
        "value": ValueError("a value"),
        "surrogate": ValueError("\ud800"),
    }
    raise errors[mood]


@pictures.handler("unjson", on=Drawn, at_least_once=True, cpu=True, consumer="pictures.unjson")
def return_no_json(event: Drawn) -> object:
    """Return what is no JSON value."""
    return object() if event.mood == "" else "\x00"
