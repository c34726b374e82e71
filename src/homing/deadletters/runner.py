"""Carrying campaigns out: a step at a time, under a lease, one transaction for each letter."""

import logging
from dataclasses import dataclass
from uuid import UUID, uuid4

from homing.clock import Clock, SystemClock
from homing.deadletters.campaign import Campaign, Canary, Deaths, Pace, Pass, Stop, Take, Wait, decide
from homing.deadletters.campaigns import LEASE_SECONDS, end_campaign
from homing.deadletters.redrive import NothingRedriven, Refusing, reopen, why_refused
from homing.ledger.actions import Person
from homing.ledger.ledger import Ledger, LedgerTransaction
from homing.schema.statement import load
from homing.service import Progress

log = logging.getLogger("homing.deadletters")

_HERE = "homing.deadletters"
HOLD = load(_HERE, "hold_campaign")
DUE = load(_HERE, "due_campaigns")
PAGE_OF = load(_HERE, "page")
COUNT = load(_HERE, "count_letter")
CANARY = load(_HERE, "canary")
PASS_CANARY = load(_HERE, "pass_canary")
DEATHS = load(_HERE, "deaths")

MOST_AT_ONCE = 20
"""The most campaigns that one tick advances."""

_NOBODY = "homing"
"""Who ends a campaign by itself."""


class CampaignLost(Exception):  # noqa: N818 - what happened; it rolls one letter back and never leaves this module
    """The campaign was stopped, or another runner took it: the letter in hand must be rolled back."""


@dataclass(frozen=True, slots=True)
class Advanced:
    """A campaign as it was before a step; `more` says that the next step need not wait."""

    campaign: Campaign
    more: bool = False


class CampaignRunner:
    """Advances running campaigns; any number of runners may, since a lease keeps each campaign to one and a guard each letter to once.

    A runner that dies is followed by another when its lease ends; what it had redriven is counted, what it had not is still open.
    """

    def __init__(self, ledger: Ledger, *, clock: Clock | None = None) -> None:
        self.id = uuid4()
        self._ledger = ledger
        self._clock = clock or SystemClock()
        self._paces: dict[UUID, Pace] = {}

    async def tick(self) -> Progress:
        """One step of every running campaign that nobody else carries out."""
        rows = await self._ledger.fetch(DUE, runner=self.id, most=MOST_AT_ONCE)
        self._paces = {row["id"]: self._paces[row["id"]] for row in rows if row["id"] in self._paces}
        advanced = [await self.advance(row["id"]) for row in rows]
        return Progress.AGAIN if any(step is not None and step.more for step in advanced) else Progress.REST

    async def advance(self, campaign_id: UUID) -> Advanced | None:
        """One step of one campaign; `None` when it does not run, or is another runner's."""
        row = await self._ledger.fetch_row(HOLD, campaign=campaign_id, runner=self.id, lease_seconds=LEASE_SECONDS)
        if row is None:
            return None
        campaign = Campaign.of(row)
        match decide(campaign, await self._deaths(campaign), await self._canary(campaign)):
            case Stop(reason=reason):
                await self._end(campaign, reason)
            case Wait():
                log.debug("campaign %s waits for its canary", campaign.id)
            case Pass():
                await self._ledger.fetch(PASS_CANARY, campaign=campaign.id, runner=self.id)
                log.info("campaign %s: its first %d letters came through", campaign.id, campaign.redriven)
                return Advanced(campaign, more=True)
            case Take(most=most):
                return Advanced(campaign, more=await self._take(campaign, most))
        return Advanced(campaign)

    async def _take(self, campaign: Campaign, most: int) -> bool:
        """Redrive a page, as far as the pace allows; whether that leaves more to do at once."""
        pace = self._paces.setdefault(campaign.id, Pace(campaign.terms.rate, self._clock.monotonic()))
        most = min(most, pace.allowance(self._clock.monotonic()))
        if most == 0:
            return False
        rows = await self._ledger.fetch(
            PAGE_OF, **campaign.filter.parameters(), after=campaign.cursor, last=campaign.last_letter, most=most
        )
        if not rows:
            await self._end(campaign, None)
            return False
        pace.spend(len(rows))
        try:
            for row in rows:
                await self._redrive(campaign, row["id"])
        except CampaignLost:
            log.info("campaign %s was stopped, or goes on elsewhere", campaign.id)
            return False
        return pace.allowance(self._clock.monotonic()) > 0

    async def _redrive(self, campaign: Campaign, letter: int) -> None:
        """Redrive and count one letter in one transaction, or count why not in another."""
        person = Person(campaign.started_by, campaign.reason)
        try:
            async with self._ledger.transaction() as tx:
                await reopen(tx, letter, person, campaign.id)
                await self._count(tx, campaign, letter, None)
        except NothingRedriven:
            refusing = await why_refused(self._ledger, letter)
            async with self._ledger.transaction() as tx:
                await self._count(tx, campaign, letter, refusing)

    async def _count(self, tx: LedgerTransaction, campaign: Campaign, letter: int, refusing: Refusing | None) -> None:
        refusal = None if refusing is None else refusing.refusal.value
        if not await tx.fetch(COUNT, campaign=campaign.id, runner=self.id, letter=letter, refusal=refusal):
            raise CampaignLost

    async def _deaths(self, campaign: Campaign) -> Deaths:
        row = await self._ledger.fetch_row(DEATHS, campaign=campaign.id, last_letter=campaign.last_letter)
        if row is None or row["worst"] is None:
            return Deaths()
        return Deaths(worst=int(row["worst"]), worst_fingerprint=row["worst_fingerprint"])

    async def _canary(self, campaign: Campaign) -> Canary | None:
        if not campaign.in_canary:
            return None
        row = await self._ledger.fetch_row(CANARY, campaign=campaign.id)
        return None if row is None else Canary(unsettled=row["unsettled"], died=row["died"])

    async def _end(self, campaign: Campaign, reason: str | None) -> None:
        """Finish without a reason, stop with one."""
        async with self._ledger.transaction() as tx:
            person = Person(_NOBODY, reason)
            ended = await end_campaign(tx, campaign.id, person, "stopped" if reason else "finished", runner=self.id)
        if ended is not None and reason:
            log.error("campaign %s stopped after %d letters: %s", campaign.id, ended.redriven, reason)
        elif ended is not None:
            log.info("campaign %s has finished: %d letters redriven", campaign.id, ended.redriven)
