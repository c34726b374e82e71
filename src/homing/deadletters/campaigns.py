"""Starting, watching and ending redrive campaigns. What a person does to one is kept in the transaction that does it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal
from uuid import UUID, uuid4

from homing.deadletters.campaign import Campaign, Terms
from homing.deadletters.filters import Filter
from homing.deadletters.letters import group_letters
from homing.errors import Refused, UnknownId
from homing.events.codec import dump_json
from homing.ledger.actions import Person, Statements, keep_action
from homing.ledger.ledger import Ledger, Row
from homing.schema.statement import load

_HERE = "homing.deadletters"
START = load(_HERE, "start_campaign")
END = load(_HERE, "end_campaign")
RESUME = load(_HERE, "resume_campaign")
CAMPAIGNS = load(_HERE, "campaigns")
NEWEST_CAMPAIGNS = load(_HERE, "newest_campaigns")

LEASE_SECONDS = 15.0
"""How long a campaign waits for a runner that fell silent before another one takes it up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """A campaign, and how the deliveries that it redrove fare now."""

    campaign: Campaign
    pending: int
    done: int
    dead_again: int


class Campaigns:
    """The campaigns of a ledger; a runner (`CampaignRunner`) carries them out, here or in a relay."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    async def start(self, chosen: Filter, terms: Terms, person: Person, *, runner: UUID | None = None) -> Campaign:
        """Write a campaign down, for `runner` to carry out or, without one, for whoever comes first.

        Raises `Refused` for an empty filter, for one that chooses nothing, and without a reason.
        """
        chosen.require_choice()
        if not (person.reason or "").strip():
            raise Refused("a campaign needs a reason: whoever looks at it later must know why (--why)")
        async with self._ledger.transaction() as tx:
            matched = (await group_letters(tx, chosen, most=1)).letters
            if matched == 0:
                raise Refused("no open dead letter fits this filter: there is nothing to redrive")
            rows = await tx.fetch(
                START,
                campaign=uuid4(),
                filter=dump_json(chosen.as_json()),
                started_by=person.name,
                reason=person.reason,
                rate=terms.rate,
                canary=terms.canary,
                stop_after=terms.stop_after,
                matched=matched,
                runner=runner,
                lease_seconds=LEASE_SECONDS if runner else 0.0,
            )
            campaign = Campaign.of(rows[0])
            await keep_action(tx, person, "redrive", _subject(campaign, "started"), affected=matched)
        return campaign

    async def newest(self, *, most: int = 20) -> Sequence[Campaign]:
        """The newest campaigns without how their deliveries fare: cheap, however many letters each of them took."""
        return [Campaign.of(row) for row in await self._ledger.fetch(NEWEST_CAMPAIGNS, most=most)]

    async def list(self, *, most: int = 20) -> list[Progress]:
        """The newest campaigns."""
        return [_progress(row) for row in await self._ledger.fetch(CAMPAIGNS, campaign=None, most=most)]

    async def read(self, campaign: UUID) -> Progress:
        """One campaign; `UnknownId` when there is none."""
        rows = await self._ledger.fetch(CAMPAIGNS, campaign=campaign, most=1)
        if not rows:
            raise UnknownId(f"there is no campaign {campaign}")
        return _progress(rows[0])

    async def pause(self, campaign: UUID, person: Person) -> Campaign:
        """Let it rest until somebody resumes it."""
        return await self._end(campaign, person, "paused")

    async def stop(self, campaign: UUID, person: Person) -> Campaign:
        """End it for good; what it has redriven runs on. Another campaign with the same filter takes what is left."""
        return await self._end(campaign, person, "stopped")

    async def resume(self, campaign: UUID, person: Person) -> Campaign:
        """Let a paused campaign go on where it was; one that runs already is left alone."""
        async with self._ledger.transaction() as tx:
            row = await tx.fetch_row(RESUME, campaign=campaign)
            if row is not None:
                resumed = Campaign.of(row)
                await keep_action(tx, person, "redrive", _subject(resumed, "resumed"), affected=resumed.redriven)
                return resumed
        found = (await self.read(campaign)).campaign
        if found.state == "running":
            return found
        raise Refused(
            f"campaign {campaign} is {found.state} ({found.end_reason or 'all taken'}): start another one for what is left"
        )

    async def _end(self, campaign: UUID, person: Person, state: Literal["paused", "stopped"]) -> Campaign:
        async with self._ledger.transaction() as tx:
            ended = await end_campaign(tx, campaign, person, state)
        if ended is not None:
            return ended
        found = (await self.read(campaign)).campaign
        raise Refused(f"campaign {campaign} is {found.state} already")


async def end_campaign(
    tx: Statements,
    campaign: UUID,
    person: Person,
    state: Literal["paused", "stopped", "finished"],
    *,
    runner: UUID | None = None,
) -> Campaign | None:
    """End or pause a campaign in the caller's transaction and keep who did; `None` when it is over, or not `runner`'s any more."""
    rows = await tx.fetch(END, campaign=campaign, state=state, why=person.reason, runner=runner)
    if not rows:
        return None
    ended = Campaign.of(rows[0])
    await keep_action(tx, person, "redrive", _subject(ended, state), affected=ended.redriven)
    return ended


def _subject(campaign: Campaign, deed: str) -> dict[str, object]:
    return {
        "campaign": str(campaign.id),
        "deed": deed,
        "filter": campaign.filter.as_json(),
        "matched": campaign.matched,
        "refused": dict(campaign.refused),
    }


def _progress(row: Row) -> Progress:
    return Progress(campaign=Campaign.of(row), pending=row["pending"], done=row["done"], dead_again=row["dead_again"])
