"""Carrying campaigns out: a page at a time, under a lease, one transaction for each letter."""

import asyncio
import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from uuid import UUID, uuid4

from homing.clock import Clock, SystemClock
from homing.deadletters.campaign import Campaign, Canary, Deaths, Pace, Pass, Stop, Take, Wait, decide
from homing.deadletters.campaigns import LEASE_SECONDS, end_campaign
from homing.deadletters.redrive import NothingRedriven, Refusal, find_refusal, reopen
from homing.events.codec import dump_json
from homing.ledger.actions import Person
from homing.ledger.ledger import Ledger, Row
from homing.metrics import Metrics, declared
from homing.schema.statement import load
from homing.service import Progress

log = logging.getLogger("homing.deadletters")

_HERE = "homing.deadletters"
HOLD = load(_HERE, "hold_campaign")
DUE = load(_HERE, "due_campaigns")
PAGE_OF = load(_HERE, "page")
COUNT = load(_HERE, "count_page")
RECOUNT = load(_HERE, "recount")
CANARY = load(_HERE, "canary")
PASS_CANARY = load(_HERE, "pass_canary")
DEATHS = load(_HERE, "deaths")

MOST_AT_ONCE = 20
"""The most campaigns that one tick advances."""

_NOBODY = "homing"
"""Who ends a campaign by itself."""


@dataclass(frozen=True, slots=True)
class Advanced:
    """A campaign as it was before a step; `more` says that the next step need not wait."""

    campaign: Campaign
    more: bool = False


@dataclass(slots=True)
class Page:
    """What became of the letters of a page."""

    redriven: int = 0
    refused: Counter[str] = field(default_factory=Counter)


class CampaignRunner:
    """Advances running campaigns; any number of runners may, since a lease keeps each campaign to one and a guard each letter to once.

    `transactions`: how many letters are redriven at the same time, each on a connection of the ledger's. A runner that dies is followed by
    another one when its lease ends; what it had redriven is counted then, what it had not is still open.
    """

    def __init__(
        self,
        ledger: Ledger,
        *,
        transactions: int = 2,
        metrics: Metrics | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.id = uuid4()
        self._ledger = ledger
        self._transactions = transactions
        self._metrics = metrics
        self._clock = clock or SystemClock()
        self._paces: dict[UUID, Pace] = {}

    async def tick(self) -> Progress:
        """One step of every running campaign that nobody else carries out."""
        rows = await self._ledger.fetch(DUE, runner=self.id, most=MOST_AT_ONCE)
        advanced = [await self.advance(row["id"]) for row in rows]
        return Progress.AGAIN if any(step is not None and step.more for step in advanced) else Progress.REST

    async def advance(self, campaign_id: UUID) -> Advanced | None:
        """One step of one campaign; `None` when it does not run, or is another runner's."""
        campaign = await self._hold(campaign_id)
        if campaign is None:
            return None
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

    async def _hold(self, campaign_id: UUID) -> Campaign | None:
        """The campaign under our lease; counted anew where its last runner may have died within a page."""
        row = await self._ledger.fetch_row(HOLD, campaign=campaign_id, runner=self.id, lease_seconds=LEASE_SECONDS)
        if row is None:
            self._paces.pop(campaign_id, None)
            return None
        if campaign_id not in self._paces:
            self._paces[campaign_id] = Pace(row["rate"], self._clock.monotonic())
            row = await self._ledger.fetch_row(RECOUNT, campaign=campaign_id)
        return None if row is None else Campaign.of(row)

    async def _take(self, campaign: Campaign, most: int) -> bool:
        """Redrive a page, as far as the pace allows; whether that leaves more to do at once."""
        pace = self._paces[campaign.id]
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
        page = asyncio.create_task(self._redrive_page(campaign, rows))
        try:
            await asyncio.shield(page)
        except asyncio.CancelledError:
            await page  # what has begun is ended and counted
            raise
        return pace.allowance(self._clock.monotonic()) > 0

    async def _redrive_page(self, campaign: Campaign, letters: Sequence[Row]) -> None:
        """Redrive the letters side by side and count them; after an error the page is taken again, and finds open what is left."""
        page, left = Page(), iter(letters)
        work = (self._redrive_some(campaign, left, page) for _ in range(self._transactions))
        failures = [answer for answer in await asyncio.gather(*work, return_exceptions=True) if answer is not None]
        if failures:
            await self._ledger.fetch(RECOUNT, campaign=campaign.id)
            raise failures[0]
        counted = await self._ledger.fetch(
            COUNT,
            campaign=campaign.id,
            runner=self.id,
            last=letters[-1]["id"],
            redriven=page.redriven,
            refused=dump_json(dict(Counter(campaign.refused) + page.refused)),
        )
        if not counted:
            log.info("campaign %s was ended, or goes on elsewhere", campaign.id)
            await self._ledger.fetch(RECOUNT, campaign=campaign.id)

    async def _redrive_some(self, campaign: Campaign, left: Iterator[Row], page: Page) -> None:
        """One letter after the other, each in a transaction of its own, as long as there are any left."""
        person = Person(campaign.started_by, campaign.reason)
        for letter in left:
            try:
                async with self._ledger.transaction() as tx:
                    await reopen(tx, letter["id"], person, campaign.id)
                page.redriven += 1
                self._count(letter, "redriven")
            except NothingRedriven:
                refusing = await find_refusal(self._ledger, letter["id"], campaign.id)
                if refusing.refusal is not Refusal.OURS:
                    page.refused[refusing.refusal.value] += 1
                    self._count(letter, "refused")

    def _count(self, letter: Row, outcome: str) -> None:
        if self._metrics is not None:
            self._metrics.count(declared.REDRIVEN, letter["consumer"], outcome)

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
        self._paces.pop(campaign.id, None)
        if ended is not None and reason:
            log.error("campaign %s stopped after %d letters: %s", campaign.id, ended.redriven, reason)
        elif ended is not None:
            log.info("campaign %s has finished: %d letters redriven", campaign.id, ended.redriven)
