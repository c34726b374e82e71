"""Consumers that live in other systems: declared here, so that their events are routed; run there, by other code than ours."""

from dataclasses import dataclass, field
from typing import Literal, Protocol

from homing.app.options import Keep, Options, Policy
from homing.durations import days, describe_seconds
from homing.errors import RegistrationError
from homing.events.event import Event
from homing.queue.job import KeepRule

Mode = Literal["tx", "after", "foreign", "elsewhere"]
"""How a delivery is settled: in the handler's transaction, after the handler, from what the engine keeps, or when it was handed over."""

OtherMode = Literal["foreign", "elsewhere"]

LOOK_AGAIN_SECONDS = 3_600.0
"""How often the look comes back to a living job, at the most."""

LOOKS_KEPT = 3
"""For so many looks a finished job of a foreign consumer is kept: one may be late, one may fail."""

OTHERS_DEFAULTS = Options(keep_completed=Keep(age=days(1)), keep_failed=Keep(age=days(14)))
"""What is kept of jobs of other systems where nobody says anything: by age alone, since a count may take what was never looked at."""


class Route(Protocol):
    """What routing needs to know of a consumer, wherever it lives."""

    @property
    def consumer(self) -> str: ...
    @property
    def queue(self) -> str: ...
    @property
    def job_name(self) -> str: ...
    @property
    def event(self) -> type[Event]: ...
    @property
    def topic(self) -> str: ...
    @property
    def mode(self) -> Mode: ...
    @property
    def policy(self) -> Policy: ...
    @property
    def aliases(self) -> tuple[str, ...]: ...
    @property
    def location(self) -> str: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Consumer:
    """A consumer of one topic in another system: the queue and the job name under which it finds its jobs."""

    consumer: str
    queue: str
    job_name: str
    event: type[Event]
    mode: OtherMode
    policy: Policy
    aliases: tuple[str, ...] = ()
    location: str = field(compare=False, default="")

    @property
    def topic(self) -> str:
        """The topic it consumes."""
        return self.event.event_type.topic


def other_mode(name: str, *, foreign: bool, elsewhere: bool) -> OtherMode:
    """Which of the two it is; a `RegistrationError` for none and for both."""
    if foreign == elsewhere:
        raise RegistrationError(
            f"consumer {name!r} says {'both' if foreign else 'neither'} foreign=True and elsewhere=True: say foreign=True when its finished "
            "jobs stay in the engine, so that each is known to be done, or elsewhere=True when handing over is all"
        )
    return "foreign" if foreign else "elsewhere"


def check_kept(what: str, policy: Policy) -> None:
    """Finished jobs of a foreign consumer must stay until they were looked at: a `RegistrationError` names the numbers."""
    for option, rule in (("keep_completed", policy.keep_completed), ("keep_failed", policy.keep_failed)):
        if problem := kept_too_short(option, rule):
            raise RegistrationError(f"{what} is foreign, {problem}")


def kept_too_short(option: str, rule: KeepRule) -> str | None:
    """Why finished jobs under this rule may leave before the look saw them."""
    needed = LOOKS_KEPT * LOOK_AGAIN_SECONDS
    if rule.count is not None:
        return (
            f"and {option} keeps {rule.count:,} jobs however old they are: keep by age alone, for at least "
            f"{describe_seconds(needed)}, as in {option}=Keep(age=days(1))"
        )
    if rule.age_seconds is not None and rule.age_seconds < needed:
        return (
            f"and {option} keeps jobs for {describe_seconds(rule.age_seconds)}: the look needs {describe_seconds(needed)}, "
            f"{LOOKS_KEPT} times its interval of {describe_seconds(LOOK_AGAIN_SECONDS)}"
        )
    return None
