"""Redriving one dead letter, and dismissing some: guarded statements, kept as what a person did, in one transaction."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from uuid import UUID

from homing.deadletters.editing import Edit
from homing.errors import HomingError, Refused, UnknownId
from homing.ids import LAST_GENERATION
from homing.ledger.actions import Person, Statements, keep_action
from homing.ledger.ledger import Ledger, LedgerTransaction, Row
from homing.schema.statement import load

_HERE = "homing.deadletters"
REDRIVE = load(_HERE, "redrive")
EDIT = load(_HERE, "edit")
STANDING = load(_HERE, "standing")
DISMISS = load(_HERE, "dismiss")


class Refusal(Enum):
    """Why a letter is not redriven, as it is counted."""

    UNKNOWN = "unknown letter"
    CLOSED = "closed"
    OURS = "redriven by this campaign"
    EVENT_GONE = "event gone"
    DELIVERY_GONE = "delivery gone"
    NOT_DEAD = "not dead"
    LATER_GENERATION = "later generation"
    LAST_GENERATION = "last generation"
    CHANGED = "changed meanwhile"


@dataclass(frozen=True, slots=True)
class Refusing:
    """A refusal, and what a person should know of it."""

    refusal: Refusal
    text: str

    @property
    def error(self) -> HomingError:
        """The refusal of a single letter, to be raised."""
        return (UnknownId if self.refusal is Refusal.UNKNOWN else Refused)(self.text)


class NothingRedriven(HomingError):  # noqa: N818 - what happened; it rolls back and never leaves this package
    """The guard of a redrive did not hold: its transaction must be rolled back."""


class Redrive:
    """Runs dead deliveries again, or decides that they never will; each call is one transaction of its own."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    async def redrive(self, letter: int, person: Person, *, edit: Edit | None = None) -> Row:
        """Open the letter's delivery again, with `edit` as its payload if there is one; its id, event_id and consumer.

        The sweep dispatches it. Raises `Refused` with the reason, or `UnknownId`; nothing is changed then.
        """
        try:
            async with self._ledger.transaction() as tx:
                row = await reopen(tx, letter, person)
                if edit is not None:
                    await tx.fetch(EDIT, event_id=row["event_id"], consumer=row["consumer"], edited=edit.as_json())
                await keep_action(tx, person, "redrive", _subject(row, edit), affected=1)
        except NothingRedriven:
            raise (await find_refusal(self._ledger, letter)).error from None
        return row

    async def dismiss(self, letters: Sequence[int], person: Person) -> list[int]:
        """Close open letters for good, their deliveries staying dead; the ids of those that were open."""
        async with self._ledger.transaction() as tx:
            rows = await tx.fetch(DISMISS, letters=list(letters), by=person.name, why=person.reason)
            closed = sorted(row["id"] for row in rows)
            if closed:
                await keep_action(tx, person, "dismiss", {"letters": closed}, affected=len(closed))
        return closed


async def reopen(tx: LedgerTransaction, letter: int, person: Person, campaign: UUID | None = None) -> Row:
    """Redrive one letter in the caller's transaction, or raise `NothingRedriven`, which must roll it back."""
    row = await tx.fetch_row(REDRIVE, letter=letter, by=person.name, why=person.reason, campaign=campaign)
    if row is None:
        raise NothingRedriven(f"letter {letter} was not redriven")
    return row


async def find_refusal(where: Statements, letter: int, campaign: UUID | None = None) -> Refusing:
    """What stands in the way of redriving a letter, for a campaign or without; asked after its transaction was rolled back."""
    rows = await where.fetch(STANDING, letter=letter)
    return judge_standing(letter, rows[0] if rows else None, campaign)


def judge_standing(letter: int, row: Row | None, campaign: UUID | None) -> Refusing:
    """The same for a row of `standing.sql`. Pure."""
    if row is None:
        return Refusing(Refusal.UNKNOWN, f"there is no dead letter {letter}")
    if row["closed_as"] is not None:
        by = f" by {row['closed_by']}" if row["closed_by"] else ""
        ours = campaign is not None and row["campaign"] == campaign
        return Refusing(
            Refusal.OURS if ours else Refusal.CLOSED,
            f"letter {letter} was closed as {row['closed_as']}{by} at {row['closed_at']:%Y-%m-%d %H:%M:%S} UTC",
        )
    if not row["event_there"]:
        return Refusing(
            Refusal.EVENT_GONE,
            f"the event of letter {letter} was pruned: its payload is gone, and only the letter's data is left",
        )
    if row["row_generation"] is None:
        return Refusing(
            Refusal.DELIVERY_GONE, f"the delivery of letter {letter} is gone: the ledger does not have its row"
        )
    if row["row_generation"] != row["generation"]:
        return Refusing(
            Refusal.LATER_GENERATION,
            f"letter {letter} is of generation {row['generation']}, its delivery is at {row['row_generation']}",
        )
    if row["outcome"] != "dead":
        state = row["outcome"] or "pending: it will run"
        return Refusing(
            Refusal.NOT_DEAD, f"the delivery of letter {letter} is {state}; dismiss the letter if that is right"
        )
    if row["row_generation"] >= LAST_GENERATION:
        return Refusing(
            Refusal.LAST_GENERATION,
            f"the delivery of letter {letter} was redriven {LAST_GENERATION - 1} times, which is the most",
        )
    return Refusing(Refusal.CHANGED, f"letter {letter} changed in this very moment: try again")


def _subject(row: Row, edit: Edit | None) -> dict[str, object]:
    subject = {"letter": row["id"], "event": str(row["event_id"]), "consumer": row["consumer"]}
    return subject if edit is None else subject | {"payload": edit.payload, "version": edit.version}
