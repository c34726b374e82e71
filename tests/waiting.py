"""Waiting for a condition, with an end: the only place where a test sleeps."""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, overload

T = TypeVar("T")

_PAUSE_SECONDS = 0.01
_PATIENCE = 3
"""How much longer than a test says it waits before it fails: a busy machine is slow, and only a test that fails waits for nothing."""


@overload
async def until(predicate: Callable[[], Awaitable[T]], timeout_seconds: float = 10, what: str = "") -> T: ...
@overload
async def until(predicate: Callable[[], T], timeout_seconds: float = 10, what: str = "") -> T: ...
async def until(predicate: Callable[[], Any], timeout_seconds: float = 10, what: str = "") -> Any:
    """Ask `predicate`, plain or async, until its answer is true, and return that answer.

    Fails after three times `timeout_seconds`. No promise of a time is proved with it, only that something happens.
    """
    deadline = time.monotonic() + timeout_seconds * _PATIENCE
    while True:
        asked = predicate()
        answer = await asked if inspect.isawaitable(asked) else asked
        if answer:
            return answer
        if time.monotonic() >= deadline:
            raise AssertionError(_complaint(predicate, timeout_seconds, what, answer))
        await asyncio.sleep(_PAUSE_SECONDS)


def wait_until(predicate: Callable[[], T], timeout_seconds: float = 10, what: str = "") -> T:
    """The same for tests without an event loop."""
    deadline = time.monotonic() + timeout_seconds * _PATIENCE
    while True:
        answer = predicate()
        if answer:
            return answer
        if time.monotonic() >= deadline:
            raise AssertionError(_complaint(predicate, timeout_seconds, what, answer))
        time.sleep(_PAUSE_SECONDS)


def _complaint(predicate: object, timeout_seconds: float, what: str, answer: object) -> str:
    name = what or getattr(predicate, "__qualname__", repr(predicate))
    return f"waited {timeout_seconds * _PATIENCE:g} s in vain for: {name} (last answer: {answer!r})"
