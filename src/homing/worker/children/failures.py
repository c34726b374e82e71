"""An error that crosses a process boundary: what is needed to judge it and to show it, without its class."""

from dataclasses import asdict

from homing.deadletters.report import ErrorReport, Reported, report_error
from homing.errors import HomingError, Key, PermanentError, RetryLater, Throttled
from homing.worker.children.frames import Frame
from homing.worker.classify import is_conflict

_CONFLICT = "40001"
"""Any of the states that mean a conflict; the report's text has the one that it was."""


class ChildDied(HomingError):  # noqa: N818 - the sentence a person reads in the dead letter
    """A child process ended, or could not be started, before it had said what came of its work."""


class TransientInChildError(Reported, HomingError):
    """Transient, as every error is that does not say otherwise."""

    sqlstate: str | None = None


class PermanentInChildError(Reported, PermanentError):
    """`PermanentError` or one of its kinds."""


class LaterInChildError(Reported, RetryLater):
    """`RetryLater` or one of its kinds."""


class ThrottledInChildError(Reported, Throttled):
    """`Throttled` or one of its kinds."""


AnyInChild = TransientInChildError | PermanentInChildError | LaterInChildError | ThrottledInChildError


def describe(error: BaseException) -> Frame:
    """The error as a frame's part."""
    described: Frame = {"report": asdict(report_error(error)), "meaning": "transient"}
    match error:
        case PermanentError():
            described["meaning"] = "permanent"
        case RetryLater(delay_seconds=delay):
            described |= {"meaning": "later", "delay_seconds": delay}
        case Throttled(delay_seconds=delay, scope=scope):
            described |= {"meaning": "throttled", "delay_seconds": delay, "scope": _scope(scope)}
        case _ if is_conflict(error):
            described["meaning"] = "conflict"
    return described


def _scope(scope: object) -> object:
    return {"key": scope.value} if isinstance(scope, Key) else scope


def rebuild(described: Frame) -> AnyInChild:
    """An error that is judged and shown as the one it was made from."""
    report = ErrorReport(**described["report"])
    error = _of_meaning(described["meaning"], report, described.get("delay_seconds", 0.0))
    if isinstance(error, Throttled):
        scope = described["scope"]
        error.scope = Key(scope["key"]) if isinstance(scope, dict) else scope
    error.report = report
    return error


def _of_meaning(meaning: str, report: ErrorReport, delay_seconds: float) -> AnyInChild:
    match meaning:
        case "permanent":
            return PermanentInChildError(report.text)
        case "later":
            return LaterInChildError(delay_seconds, report.text)
        case "throttled":
            return ThrottledInChildError(delay_seconds, report.text)
        case _:
            failed = TransientInChildError(report.text)
            failed.sqlstate = _CONFLICT if meaning == "conflict" else None
            return failed
