"""The ledger and the engine for one command: opened, used, closed, and silent about an outage that the command's one line tells."""

import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from homing.cli.features import feature
from homing.cli.session import Session
from homing.ledger.ledger import Ledger
from homing.queue.browse import SteeredEngine

T = TypeVar("T")

_ENGINE_LOG = logging.getLogger("homing.queue")


def run_on_both(session: Session, verb: str, task: Callable[[Ledger, SteeredEngine], Awaitable[T]]) -> T:
    """What the task returns; an error of either server ends the command with its line and its exit code.

    The app is loaded only where the settings name no prefix, since its name is the prefix then.
    """
    settings = session.settings()
    prefix = settings.prefix or session.application(settings).name
    run = feature("homing.operations.connecting", "run_on_both", verb=verb, extra="redis")
    with _told_once(verbose=session.verbose):
        result: T = run(settings, prefix, verb, task)
    return result


@contextmanager
def _told_once(*, verbose: bool) -> Iterator[None]:
    level = _ENGINE_LOG.level
    if not verbose:
        _ENGINE_LOG.setLevel(logging.ERROR)
    try:
        yield
    finally:
        _ENGINE_LOG.setLevel(level)
