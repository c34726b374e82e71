"""Whether the times that a person can set fit each other, and what this configuration needs. Pure."""

from collections.abc import Iterable, Iterator

from homing.app import Handler, Queue
from homing.app.retention import check_retention
from homing.config.settings import Settings
from homing.upkeep.doctor.finding import Finding, error, ok, warning

LEDGER_CONNECTIONS = 4
"""What the pool of one process opens at the most; beside it relays hold one that listens, and handlers those of the application."""


def longest_attempt(handlers: Iterable[Handler], settings: Settings) -> tuple[float, str]:
    """The longest that one run may take, in seconds, and the name of its handler."""
    default = settings.attempt_timeout.total_seconds()
    own = [(each.policy.timeout_seconds, each.consumer) for each in handlers]
    return max(((default if given is None else given, name) for given, name in own), default=(default, "a run"))


def judge_times(handlers: Iterable[Handler], settings: Settings) -> Iterator[Finding]:
    """Attempts against the grace of a stop, and the wait for a repair against the lease."""
    seconds, name = longest_attempt(handlers, settings)
    grace = settings.shutdown_grace.total_seconds()
    if seconds > grace:
        yield warning(
            "grace",
            f"{name} may run for {seconds:g} s and a stop waits {grace:g} s: deploys interrupt it, and it begins again",
            f"raise HOMING_SHUTDOWN_GRACE to {seconds:g}s, and the orchestrator's limit above it",
        )
    else:
        yield ok("grace", "a stop lets every run finish")


def judge_retention(queues: Iterable[Queue], handlers: Iterable[Handler], settings: Settings) -> Iterator[Finding]:
    """The retention contract, as every worker checks it at start."""
    contract = check_retention(list(queues), list(handlers), settings.retention)
    for text in contract.errors:
        yield error("retention", text, "change one of the two: workers refuse to start like this")
    for text in contract.warnings:
        yield warning("retention", text, "change one of the two, or accept it")
    if not contract.errors and not contract.warnings:
        yield ok("retention", "every window outlasts what depends on it")


def connections_needed(queues: Iterable[Queue], settings: Settings) -> int:
    """What one `homing worker` of this configuration opens at the most: per process a slot's transaction each, the ledger's pool, a listener."""
    slots = sum(queue.concurrency or settings.worker_concurrency for queue in queues)
    return settings.worker_processes * (slots + LEDGER_CONNECTIONS) + 1
