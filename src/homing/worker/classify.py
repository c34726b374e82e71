"""What an error means for its job. Pure: error, attempt and policy in, a verdict out."""

from collections.abc import Callable
from dataclasses import dataclass

from homing.app.options import Policy
from homing.backoff import MAX_WAIT_SECONDS
from homing.deadletters.report import ErrorReport, report_error, report_text
from homing.errors import Key, PermanentError, RetryLater, Throttled
from homing.queue.outcome import KeyPaused, Paused, Postponed, Retry

CONFLICT_SECONDS = 0.2
"""About how long a run that met another transaction waits: serialisation failure, deadlock, a row that stayed locked."""

LASTING_CONFLICT_SECONDS = 60.0
"""The same for a job that was started as often as it may be: only its deadline ends what is nobody's fault."""

_CONFLICTS = frozenset({"40001", "40P01", "55P03"})


@dataclass(frozen=True, slots=True)
class Attempt:
    """Which run this is: `number` counts runs that were counted, from 1; `starts` counts claims, snoozed ones included; `key`: its queue limits by it."""

    number: int
    starts: int
    key: str | None = None


@dataclass(frozen=True, slots=True)
class Fatal:
    """The job must be buried."""

    report: ErrorReport


Verdict = Retry | Postponed | Paused | KeyPaused | Fatal


def classify(error: BaseException, attempt: Attempt, policy: Policy, random: Callable[[], float]) -> Verdict:
    """Decide what becomes of a job whose handler raised `error`.

    An unknown error counts as transient: retrying a permanent one costs minutes, burying a transient one loses work.
    """
    report = report_error(error)
    if isinstance(error, PermanentError):
        return Fatal(report.final("permanent"))
    if is_conflict(error) and not isinstance(error, RetryLater | Throttled):
        usual_seconds = CONFLICT_SECONDS if attempt.starts < policy.max_starts else LASTING_CONFLICT_SECONDS
        return Postponed(usual_seconds * (0.5 + random()), report.summary, "snoozed")
    if attempt.starts >= policy.max_starts:
        text = f"started {attempt.starts} times without an end (max_starts={policy.max_starts}); last: {report.summary}"
        return Fatal(report_text("StartedTooOften", text, report.stack).final("exhausted"))
    if isinstance(error, RetryLater):
        return Postponed(min(error.delay_seconds, MAX_WAIT_SECONDS), report.text, "snoozed")
    if isinstance(error, Throttled):
        return _throttle(error, report.text, policy, attempt.key)
    if attempt.number >= policy.attempts:
        return Fatal(report.final("exhausted"))
    return Retry(policy.backoff.wait_seconds(attempt.number, random), report.summary, report.stack)


def _throttle(error: Throttled, reason: str, policy: Policy, own_key: str | None) -> Paused | KeyPaused | Postponed:
    """What waits; a key that the queue does not limit by, and an event without one, make only the job wait."""
    delay_seconds = min(error.delay_seconds, MAX_WAIT_SECONDS)
    scope = error.scope or policy.throttle
    if scope == "queue":
        return Paused(delay_seconds, reason, policy.limit)
    key = scope.value if isinstance(scope, Key) else own_key
    if scope != "job" and key is not None and policy.read_key is not None:
        return KeyPaused(key, delay_seconds, reason)
    return Postponed(delay_seconds, reason, "throttled")


def is_conflict(error: BaseException) -> bool:
    """Whether the database refused because of a concurrent transaction: nothing is wrong with the job."""
    return any(sqlstate in _CONFLICTS for sqlstate in _sqlstates(error))


def _sqlstates(error: BaseException) -> list[str]:
    found: list[str] = []
    seen: set[int] = set()
    left: list[BaseException | None] = [error]
    while left:
        current = left.pop()
        if current is None or id(current) in seen:
            continue
        seen.add(id(current))
        sqlstate = getattr(current, "sqlstate", None)
        if isinstance(sqlstate, str):
            found.append(sqlstate)
        left += [current.__cause__, getattr(current, "orig", None)]
    return found
