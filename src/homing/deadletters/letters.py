"""Reading dead letters: a page of them, one with its history, and groups of like ones. Changes nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from homing.deadletters.filters import Filter
from homing.errors import UnknownId
from homing.ledger.actions import Statements
from homing.ledger.ledger import Row
from homing.schema.statement import load

_HERE = "homing.deadletters"
LIST = load(_HERE, "list")
GROUPS = load(_HERE, "groups")
NEWEST_GROUPS = load(_HERE, "newest_groups")
SHOW = load(_HERE, "show")
HISTORY = load(_HERE, "history")
HISTOGRAM = load(_HERE, "histogram")

NEWEST = 2**63 - 1
"""The id after all letters: the first page of a list begins before it."""

MOST_OF_A_HISTORY = 1000

WALK = 20_000
"""Letters that are looked at, at most, where the newest ones say enough."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterPage:
    """Letters, newest first. `before` asks for the next page; `None` when this is the last one."""

    letters: Sequence[Row]
    before: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Groups:
    """Open letters by fingerprint, and their sums over all groups, also those that were too many to be listed.

    A redrive would refuse `gone` (their event was pruned) and `settled` (their delivery is not dead any more).
    """

    groups: Sequence[Row]
    letters: int
    gone: int
    settled: int
    oldest: datetime | None
    newest: datetime | None


async def list_letters(
    where: Statements, chosen: Filter, *, is_open: bool | None, before: int = NEWEST, most: int = 50
) -> LetterPage:
    """A page of letters: open ones, closed ones, or (`None`) both."""
    rows = await where.fetch(LIST, **chosen.parameters(), open=is_open, before=before, most=most)
    return LetterPage(letters=rows, before=rows[-1]["id"] if len(rows) == most else None)


async def group_letters(where: Statements, chosen: Filter, *, most: int = 50) -> Groups:
    """The open letters that a filter chooses, by fingerprint: what a redrive of them would do."""
    rows = await where.fetch(GROUPS, **chosen.parameters(), most=most)
    if not rows:
        return Groups(groups=rows, letters=0, gone=0, settled=0, oldest=None, newest=None)
    sums = rows[0]
    return Groups(
        groups=rows,
        letters=sums["all_letters"],
        gone=sums["all_gone"],
        settled=sums["all_settled"],
        oldest=sums["all_oldest"],
        newest=sums["all_newest"],
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class NewestGroups:
    """The newest open letters by fingerprint; `letters` over all groups, which are all that there are where `is_complete`."""

    groups: Sequence[Row]
    letters: int
    is_complete: bool


async def group_newest_letters(where: Statements, chosen: Filter, *, most: int = 50, walk: int = WALK) -> NewestGroups:
    """What `group_letters` says of the newest `walk` letters, but for what a redrive would refuse: as cheap as a page must be."""
    rows = await where.fetch(NEWEST_GROUPS, **chosen.parameters(), walk=walk, most=most)
    letters = rows[0]["all_letters"] if rows else 0
    return NewestGroups(groups=rows, letters=letters, is_complete=letters < walk)


async def show_letter(where: Statements, letter: int) -> Row:
    """One letter with everything, its delivery and its event as they are now; `UnknownId` when there is none."""
    rows = await where.fetch(SHOW, letter=letter)
    if not rows:
        raise UnknownId(f"there is no dead letter {letter}")
    return rows[0]


async def letter_history(where: Statements, letter: Row) -> list[Row]:
    """Every death of the letter's delivery, in order."""
    return await where.fetch(HISTORY, event_id=letter["event_id"], consumer=letter["consumer"], most=MOST_OF_A_HISTORY)


async def letter_histograms(
    where: Statements, fingerprints: Sequence[str], *, span_seconds: float, slots: int
) -> Mapping[str, Sequence[int]]:
    """How many letters of each group died in each part of the time until now, oldest first, as far as the newest `WALK` letters tell."""
    found = {fingerprint: [0] * slots for fingerprint in fingerprints}
    rows = await where.fetch(
        HISTOGRAM, fingerprints=list(fingerprints), span_seconds=span_seconds, slots=slots, walk=WALK
    )
    for row in rows:
        found[row["fingerprint"]][row["slot"]] = row["deaths"]
    return found
