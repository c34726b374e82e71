"""The retention contract: windows that must be longer than others, checked before anything runs. Pure."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta

from homing.app.declared import Queue
from homing.app.handlers import Handler
from homing.config.settings import Retention
from homing.durations import describe_seconds
from homing.errors import ConfigurationError
from homing.queue.job import KeepRule

_JOBS_OF_A_DAY = 86_400
_MEGABYTES_OF_A_DAY = 100  # measured: a finished job is about 1,150 bytes in Valkey, its payload apart


@dataclass(frozen=True, slots=True)
class Contract:
    """What was found: `errors` would break a promise in silence, `warnings` are allowed and should be known."""

    errors: tuple[str, ...]
    warnings: tuple[str, ...]

    def require(self) -> None:
        """Raise a `ConfigurationError` with all errors at once, if there are any."""
        if self.errors:
            raise ConfigurationError("; ".join(self.errors))


def check_retention(queues: Iterable[Queue], handlers: Iterable[Handler], retention: Retention) -> Contract:
    """Compare the windows of the ledger with what the engine keeps, handler by handler."""
    foreign = {queue.name for queue in queues if queue.other_producers}
    declared = list(handlers)
    return Contract(
        errors=(
            *(
                error
                for handler in declared
                if handler.queue in foreign or handler.message_id is not None
                for error in _outlived_inbox(handler, retention.inbox)
            ),
            *(
                error
                for handler in declared
                if handler.takes_flow
                for error in _outwaited_inbox(handler, retention.inbox)
            ),
        ),
        warnings=(*_idle_letters(retention), *(warning for handler in declared for warning in _evidence(handler))),
    )


def outliving_jobs(queues: Iterable[Queue], handlers: Iterable[Handler], retention: Retention) -> dict[str, str]:
    """What to say, by queue, when jobs of other producers are found on a queue that was not declared to have them."""
    undeclared = {queue.name for queue in queues if not queue.other_producers}
    return {
        handler.queue: f"queue {handler.queue} is not declared with other_producers=True, and has jobs of other producers: {error}"
        for handler in handlers
        if handler.queue in undeclared
        for error in _outlived_inbox(handler, retention.inbox)
    }


def _outlived_inbox(handler: Handler, inbox: timedelta) -> Iterator[str]:
    """A job of another producer can start again while the engine has it, and must be remembered as long."""
    window = describe_seconds(inbox.total_seconds())
    policy = handler.policy
    what = f"{handler.consumer} takes jobs of other producers, and HOMING_RETENTION__INBOX is {window}"
    for option, rule in (("keep_completed", policy.keep_completed), ("keep_failed", policy.keep_failed)):
        kept = _kept_longer(rule, inbox)
        if kept is not None:
            yield (
                f"{what}, but {option} keeps finished ones {kept}: one that a person retries after {window} would run again; give "
                f"{option} an age of at most {window}, or raise HOMING_RETENTION__INBOX"
            )
    if policy.deadline_seconds > inbox.total_seconds():
        deadline = describe_seconds(policy.deadline_seconds)
        yield (
            f"{what}, but its deadline is {deadline}: a copy that waits so long would run again; lower the deadline to {window}, or "
            f"raise HOMING_RETENTION__INBOX to {deadline}"
        )


def _outwaited_inbox(handler: Handler, inbox: timedelta) -> Iterator[str]:
    """What a child has done is in the inbox, and must be remembered as long as its parent may wait for the others."""
    deadline_seconds = handler.policy.deadline_seconds
    if deadline_seconds > inbox.total_seconds():
        window, deadline = describe_seconds(inbox.total_seconds()), describe_seconds(deadline_seconds)
        yield (
            f"{handler.consumer} waits for children until its deadline of {deadline}, and HOMING_RETENTION__INBOX is {window}: a child that was "
            f"done would be forgotten, and done again after a flush; lower the deadline to {window}, or raise HOMING_RETENTION__INBOX to {deadline}"
        )


def _kept_longer(rule: KeepRule, inbox: timedelta) -> str | None:
    """For how long, when that is longer than the window. A count alone bounds no time: a silent queue is never trimmed."""
    if rule.count == 0:
        return None
    if rule.age_seconds is None:
        return "for ever" if rule.count is None else f"as the last {rule.count:,}, however old they are"
    return f"for {describe_seconds(rule.age_seconds)}" if rule.age_seconds > inbox.total_seconds() else None


def _idle_letters(retention: Retention) -> Iterator[str]:
    if retention.dead_letters < retention.events:
        yield (
            f"HOMING_RETENTION__DEAD_LETTERS is {describe_seconds(retention.dead_letters.total_seconds())} and HOMING_RETENTION__EVENTS is "
            f"{describe_seconds(retention.events.total_seconds())}: an open dead letter stays as long as its event, so the shorter "
            "window has no effect on it"
        )


def _evidence(handler: Handler) -> Iterator[str]:
    completed, failed = handler.policy.keep_completed, handler.policy.keep_failed
    if failed.count == 0:
        yield (
            f"{handler.consumer} has keep_failed with count 0: failed jobs leave the queue at once, and queue tools show none of them; "
            "their dead letters stay in the ledger"
        )
    if completed == failed == KeepRule():
        yield (
            f"{handler.consumer} keeps every completed and every failed job for ever: at one job a second the engine grows by "
            f"{_JOBS_OF_A_DAY:,} jobs and {_MEGABYTES_OF_A_DAY} MB a day, payloads apart; give keep_completed an age"
        )
