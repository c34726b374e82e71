"""Every error Homing raises, grouped by what the reader should do about it."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Literal


class HomingError(Exception):
    """The root of all errors of this library."""


# ── Fix what you typed, deployed or pointed at: raised at start, before anything ran ────────────────────────────────


class ConfigurationError(HomingError):
    """A setting, a URL or a combination of them cannot work; the text names the value and the remedy."""


class RegistrationError(ConfigurationError):
    """A handler, event or queue was declared in a way that cannot keep its promise."""


class SchemaError(ConfigurationError):
    """The database has no ledger, an older or a newer one, or the ledger of somebody else."""


class MissingExtraError(ConfigurationError):
    """A feature needs a package that is not installed; the text holds the pip line."""

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(f'{feature} needs packages that are not installed: pip install "homing[{extra}]"')
        self.extra = extra


# ── Look at the servers ─────────────────────────────────────────────────────────────────────────────────────────────


class ServerUnavailable(HomingError):  # noqa: N818 - the word on call people use; "Error" adds nothing
    """PostgreSQL or Redis cannot be reached or does not answer in time; nothing was concluded from the silence.

    `server`: which one, so that an outage that many meet is told once; empty for the engine's.
    """

    def __init__(self, text: str, *, server: str = "") -> None:
        super().__init__(text)
        self.server = server


class UnsuitableServer(HomingError):  # noqa: N818 - as above
    """The server answers, but its version or settings would lose work (eviction, persistence, read-only)."""


# ── Fix the call: raised before the caller's connection was touched ─────────────────────────────────────────────────


class RecordError(HomingError):
    """`record` or `once` refused: what was given or the transaction cannot keep the promise; nothing was written."""


class PayloadError(RecordError):
    """A payload cannot travel unchanged through JSON, PostgreSQL and other languages."""


class NewerPayloadError(PayloadError):
    """A payload was written by newer code than this: it waits for that code instead of dying here."""


class TransactionRequiredError(RecordError):
    """A connection without an open transaction was given, so that what is written could outlive a rollback."""


class EnqueueError(HomingError):
    """A job cannot be enqueued as it was given: its id, name, options or data; nothing was added."""


# ── Look at the job: what became of one that somebody waits for ─────────────────────────────────────────────────────


class JobFailed(HomingError):  # noqa: N818 - what happened to the job, not here
    """The job failed for good; `reason` is its last error, as the worker wrote it."""

    def __init__(self, text: str, *, reason: str = "") -> None:
        super().__init__(text)
        self.reason = reason


class JobGone(HomingError):  # noqa: N818 - as above
    """There is no such job any more, and no word of its end: it was removed, or was not kept that long."""


class ResultTimeout(HomingError, TimeoutError):  # noqa: N818 - as above
    """The job has not ended in the time that somebody would wait; it goes on."""


# ── Fix the request: an operator's command that was understood and not carried out; nothing was changed ─────────────


class Refused(HomingError):  # noqa: N818 - the answer, as it is told
    """What was asked would do harm or nothing: the text says why, and what would be accepted."""


class NotPermitted(Refused):
    """Whoever asked has a role that does not allow it: somebody with the role that the text names may."""


class UnknownId(HomingError):  # noqa: N818 - as above
    """An id names nothing that the ledger has (or has any more)."""


# ── What a handler or a service says about its work: by meaning, without knowing any queue ─────────────────────────


class PermanentError(HomingError):
    """Trying again gives the same result: the job dies at once and waits for a person."""


class Unauthorized(PermanentError):  # noqa: N818 - named after the answer it stands for
    """The other side refused our credentials (401, 403): permanent, loud, and redriven once they are mended."""


class FlowError(PermanentError):
    """Children that cannot be added: for nobody here, two of one key, too many; nothing of the flow was added."""


class RetryLater(HomingError):  # noqa: N818 - a request, not an accident
    """Not yet: run this job again after `delay`; spends no attempt."""

    def __init__(self, delay: timedelta | float, reason: str = "not yet") -> None:
        self.delay_seconds = _non_negative_seconds(delay)
        super().__init__(f"{reason} (again in {self.delay_seconds:g} s)")


@dataclass(frozen=True, slots=True)
class Key:
    """One tenant, account or whatever a queue limits by: what a `Throttled` may pause alone."""

    value: str


class Throttled(HomingError):  # noqa: N818 - a request, not an accident
    """The other side's quota is used up: wait `retry_after` before asking again; spends no attempt.

    `scope`: what waits, the whole `queue`, this `job` alone, all jobs with the `key` of this one, or with the `Key(...)` that is named;
    left out, what the queue's declaration says. Keys are those of the queue's `limit_key`.
    """

    def __init__(
        self,
        retry_after: timedelta | float,
        reason: str = "throttled",
        *,
        scope: Literal["queue", "job", "key"] | Key | None = None,
    ) -> None:
        self.delay_seconds = _non_negative_seconds(retry_after)
        self.scope = scope
        super().__init__(f"{reason} (again in {self.delay_seconds:g} s)")


# ── What the engine says about a run ────────────────────────────────────────────────────────────────────────────────


class HandlerEndedTransaction(PermanentError):  # noqa: N818 - the sentence a person reads in the dead letter
    """A handler committed, rolled back or closed the transaction that belongs to Homing."""


class AttemptTimeout(HomingError):  # noqa: N818 - what happened to the run, not to the program
    """A run took longer than its attempt may; transient, and told apart from a handler's own `TimeoutError`."""


class DuplicateDelivery(HomingError):  # noqa: N818 - a fact, raised only where a handler asked for it
    """The delivery was settled by an earlier run."""


def _non_negative_seconds(delay: timedelta | float) -> float:
    seconds = delay.total_seconds() if isinstance(delay, timedelta) else float(delay)
    if not 0 <= seconds < float("inf"):
        raise ValueError(f"a delay must be a finite number of seconds ≥ 0, not {delay!r}")
    return seconds
