"""The ledger and the engine for one command: opened, used, closed, and silent about an outage that the command's one line tells."""

import logging
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TypeVar

from rich.console import Console

from homing.cli.apps import application_of
from homing.cli.features import feature
from homing.cli.session import Session
from homing.ledger.ledger import Ledger
from homing.queue.browse import SteeredEngine

T = TypeVar("T")

_ENGINE_LOG = logging.getLogger("homing.queue")


def run_on_both(
    session: Session, verb: str, task: Callable[[Ledger, SteeredEngine], Awaitable[T]], *, doing: str | None = None
) -> T:
    """What the task returns; an error of either server ends the command with its line and its exit code.

    The app is loaded only where the settings name no prefix, since its name is the prefix then. `doing`: what a terminal says meanwhile,
    for what may take minutes.
    """
    settings = session.settings()
    prefix = settings.prefix or application_of(settings).name
    run = feature("homing.operations.connecting", "run_on_both", verb=verb, extra="redis")
    with _told_once(verbose=session.verbose), _said_meanwhile(doing):
        result: T = run(settings, prefix, verb, task)
    return result


def _said_meanwhile(doing: str | None) -> AbstractContextManager[object]:
    if doing is None or not sys.stderr.isatty():
        return nullcontext()
    return Console(stderr=True, highlight=False, markup=False, emoji=False).status(doing)


@contextmanager
def _told_once(*, verbose: bool) -> Iterator[None]:
    level = _ENGINE_LOG.level
    if not verbose:
        _ENGINE_LOG.setLevel(logging.ERROR)
    try:
        yield
    finally:
        _ENGINE_LOG.setLevel(level)
