"""How long a stop may take, from the first signal to the end of the process, and what an orchestrator should be told."""

import logging
import math
from dataclasses import dataclass

from homing.app.application import Homing
from homing.config.settings import Settings
from homing.durations import describe_seconds
from homing.worker.worker import ENDING_SECONDS

log = logging.getLogger("homing.process")

CLOSING_SECONDS = 5.0
"""How long resources and connections may take to close, once the runs have ended."""

MARGIN_SECONDS = 5
"""Between the end of the longest stop and the moment when the orchestrator should kill."""


@dataclass(frozen=True, slots=True)
class StopPlan:
    """`grace_seconds`: runs may finish. Then those that have not are cancelled, given back, and everything is closed."""

    grace_seconds: float

    @property
    def longest_seconds(self) -> float:
        """When the process ends at the latest, in good order or not."""
        return self.grace_seconds + ENDING_SECONDS + CLOSING_SECONDS

    @property
    def termination_grace_seconds(self) -> int:
        """What terminationGracePeriodSeconds should be at least."""
        return math.ceil(self.longest_seconds) + MARGIN_SECONDS

    def announce(self, what: str) -> None:
        """Say it at start."""
        log.info(
            "%s; on SIGTERM it claims nothing more, lets runs finish for %g s, gives the rest back and ends within %g s: "
            "terminationGracePeriodSeconds should be at least %d",
            what,
            self.grace_seconds,
            self.longest_seconds,
            self.termination_grace_seconds,
        )


def warn_of_long_attempts(app: Homing, settings: Settings) -> None:
    """Say which runs may outlast the grace: a stop interrupts them, and they begin again from the start.

    A warning where a person chose one of the two numbers, once, for the longest. The defaults differ on purpose: that is a note.
    """
    grace = settings.shutdown_grace.total_seconds()
    longest, name = longest_attempt(app, settings)
    level = logging.WARNING if _longest_chosen(app, settings) > grace else logging.INFO
    if longest > grace:
        log.log(
            level,
            "%s may run for %g s and HOMING_SHUTDOWN_GRACE is %g s: a stop cancels such a run, gives its job back without "
            "spending an attempt, and it begins again; raise the grace to %g s to let it finish",
            name,
            longest,
            grace,
            longest,
        )


def _longest_chosen(app: Homing, settings: Settings) -> float:
    """The longest attempt that somebody decided on: for a handler, or with the settings of this process."""
    own = [handler.policy.timeout_seconds or 0.0 for handler in app.handlers]
    if {"attempt_timeout", "shutdown_grace"} & settings.model_fields_set:
        own.append(longest_attempt(app, settings)[0])
    return max(own, default=0.0)


def announce_patience(app: Homing, settings: Settings) -> None:
    """Say for every handler how often and for how long it is tried before it is dead."""
    default = settings.attempt_timeout.total_seconds()
    for handler in app.handlers:
        policy = handler.policy
        log.info(
            "%s (%s): %d attempts within %s of waiting, each at most %s",
            handler.consumer,
            handler.guarantee,
            policy.attempts,
            policy.describe_horizon(),
            describe_seconds(default if policy.timeout_seconds is None else policy.timeout_seconds),
        )


def longest_attempt(app: Homing, settings: Settings) -> tuple[float, str]:
    """The longest that one run may take, in seconds, and the name of its handler."""
    default = settings.attempt_timeout.total_seconds()
    own = [(handler.policy.timeout_seconds, handler.consumer) for handler in app.handlers]
    return max(((default if seconds is None else seconds, name) for seconds, name in own), default=(default, "a run"))
