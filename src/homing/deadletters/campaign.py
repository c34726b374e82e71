"""A redrive campaign: its row, and what its next step is. Pure."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Self
from uuid import UUID

from homing.deadletters.filters import Filter
from homing.ledger.ledger import Row

State = Literal["running", "paused", "stopped", "finished"]

PAGE = 100
"""The most letters that one step takes, so that a stop or a loss of the lease is met soon."""

BURST_SECONDS = 2.0
"""How much time without a step may be made up for at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """How a campaign goes about it.

    `rate`: letters per second. `canary`: so many go first, and the rest only when none of them has died again; 0 = none do.
    `stop_after`: so many deaths of one fingerprint, as before, stop it; `None` = never.
    """

    rate: float = 100.0
    canary: int = 0
    stop_after: int | None = 10

    def __post_init__(self) -> None:
        if not 0 < self.rate < float("inf"):
            raise ValueError(f"rate={self.rate} is no number of letters per second: it must be more than 0")
        if self.canary < 0:
            raise ValueError(f"canary={self.canary} is no number of letters: it must be 0 or more")
        if self.stop_after is not None and self.stop_after < 1:
            raise ValueError(f"stop_after={self.stop_after} would stop before the first death: it must be 1 or more")


@dataclass(frozen=True, slots=True, kw_only=True)
class Campaign:
    """A campaign as its row has it. `refused` counts by reason; `died_again` is as its runner saw it last."""

    id: UUID
    filter: Filter
    terms: Terms
    started_by: str
    reason: str
    state: State
    last_letter: int
    cursor: int
    matched: int
    redriven: int
    refused: Mapping[str, int]
    died_again: int
    canary_passed: bool
    started_at: datetime
    ended_at: datetime | None
    end_reason: str | None

    @classmethod
    def of(cls, row: Row) -> Self:
        """The campaign of a row."""
        return cls(
            id=row["id"],
            filter=Filter.from_json(json.loads(row["filter"])),
            terms=Terms(rate=row["rate"], canary=row["canary"], stop_after=row["stop_after"]),
            started_by=row["started_by"],
            reason=row["reason"],
            state=row["state"],
            last_letter=row["last_letter"],
            cursor=row["cursor"],
            matched=row["matched"],
            redriven=row["redriven"],
            refused=json.loads(row["refused"]),
            died_again=row["died_again"],
            canary_passed=row["canary_passed_at"] is not None,
            started_at=row["started_at"],
            ended_at=row["ended_at"],
            end_reason=row["end_reason"],
        )

    @property
    def in_canary(self) -> bool:
        """Whether its first letters have yet to show that the rest may follow."""
        return self.terms.canary > 0 and not self.canary_passed


@dataclass(frozen=True, slots=True, kw_only=True)
class Deaths:
    """How many deliveries died again as before, and the fingerprint with most of them."""

    worst: int = 0
    worst_fingerprint: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Canary:
    """How the first letters fare: those that are not settled yet, and those that are dead again, of whatever."""

    unsettled: int
    died: int


@dataclass(frozen=True, slots=True)
class Take:
    """Redrive up to so many more letters."""

    most: int


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing may be done before the canary is settled."""


@dataclass(frozen=True, slots=True)
class Pass:
    """The canary came through: say so, and go on."""


@dataclass(frozen=True, slots=True)
class Stop:
    """It does harm: redrive nothing more."""

    reason: str


Step = Take | Wait | Pass | Stop


def decide(campaign: Campaign, deaths: Deaths, canary: Canary | None) -> Step:
    """What a running campaign does next; `canary` is asked for only while it is in its canary."""
    stop_after = campaign.terms.stop_after
    if stop_after is not None and deaths.worst >= stop_after:
        return Stop(f"{deaths.worst} deliveries died again of {deaths.worst_fingerprint} (stop after {stop_after})")
    if not campaign.in_canary or canary is None:
        return Take(PAGE)
    if canary.died:
        return Stop(f"{canary.died} of the first {campaign.redriven} died again (canary {campaign.terms.canary})")
    if campaign.redriven < campaign.terms.canary:
        return Take(min(PAGE, campaign.terms.canary - campaign.redriven))
    return Wait() if canary.unsettled else Pass()


class Pace:
    """A rate by real time: one letter at once, then as many as the time that has passed allows, in bursts of two seconds at most."""

    def __init__(self, rate: float, now: float) -> None:
        self._rate = rate
        self._allowed = 1.0
        self._last = now

    def allowance(self, now: float) -> int:
        """How many letters may go at `now` (monotonic seconds)."""
        most = max(1.0, self._rate * BURST_SECONDS)
        self._allowed = min(most, self._allowed + (now - self._last) * self._rate)
        self._last = now
        return int(self._allowed)

    def spend(self, letters: int) -> None:
        """So many have gone."""
        self._allowed -= letters
