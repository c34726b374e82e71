"""The walks of pruning: each goes over one kind of row in batches and knows where it is; a batch is one transaction."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol
from uuid import UUID

from homing.config.settings import Retention
from homing.ledger.ledger import LedgerTransaction
from homing.schema.statement import load
from homing.upkeep.pruned import Pruned

_HERE = "homing.upkeep"
CANDIDATES = load(_HERE, "prune_candidates")
PRUNE = load(_HERE, "prune")
JOB_CANDIDATES = load(_HERE, "prune_job_candidates")
ADOPTED = load(_HERE, "prune_adopted")
PRUNE_INBOX = load(_HERE, "prune_inbox")
PRUNE_LETTERS = load(_HERE, "prune_letters")
PRUNE_WORKERS = load(_HERE, "prune_workers")

SILENT_SECONDS = 86_400.0
"""How long a process was not heard of before its row is forgotten."""

_FIRST = UUID(int=0)
_LONG_AGO = datetime(1, 1, 2, tzinfo=UTC)


class Walk(Protocol):
    """One kind of row; `retention` and `page` are given with each step."""

    async def step(self, transaction: LedgerTransaction, retention: Retention, page: int) -> tuple[Pruned, bool]:
        """Take the next batch: what left, and whether more may follow. After the last batch the walk begins anew."""
        ...


async def _prune_units(transaction: LedgerTransaction, ids: list[UUID], retention: Retention) -> Pruned:
    """Locked events with their deliveries: whoever opened a delivery before the lock is seen here, whoever comes after finds no event."""
    (gone,) = await transaction.fetch(
        PRUNE,
        ids=ids,
        events_seconds=retention.events.total_seconds(),
        inbox_seconds=retention.inbox.total_seconds(),
        letters_seconds=retention.dead_letters.total_seconds(),
    )
    return Pruned(events=gone["events"], deliveries=gone["deliveries"], inbox=gone["inbox"], lost=gone["lost"])


@dataclass(slots=True)
class Events:
    """Recorded events with their deliveries, in the order of their ids. `before` gives the first id that is too young."""

    before: Callable[[], UUID]
    _after: UUID = _FIRST

    async def step(self, transaction: LedgerTransaction, retention: Retention, page: int) -> tuple[Pruned, bool]:
        """Lock the next events, and take those that nothing needs."""
        rows = await transaction.fetch(CANDIDATES, after=self._after, before=self.before(), page=page)
        ids = [row["id"] for row in rows]
        pruned = await _prune_units(transaction, ids, retention)
        more = len(ids) == page
        self._after = ids[-1] if more else _FIRST
        return pruned, more


@dataclass(slots=True)
class Jobs:
    """Settled jobs of other producers, in the order of their settling: the inbox, and what was adopted with its event.

    `forgotten` is called with the queues whose jobs are remembered no more.
    """

    forgotten: Callable[[list[str]], None] = field(default=lambda _: None)
    _after: tuple[datetime, UUID, str] = field(default=(_LONG_AGO, _FIRST, ""))

    async def step(self, transaction: LedgerTransaction, retention: Retention, page: int) -> tuple[Pruned, bool]:
        """Lock the next rows and their events, if they have any, and take those that nothing needs."""
        settled_at, event_id, consumer = self._after
        rows = await transaction.fetch(
            JOB_CANDIDATES,
            settled_at=settled_at,
            event_id=event_id,
            consumer=consumer,
            inbox_seconds=retention.inbox.total_seconds(),
            page=page,
        )
        adopted = await transaction.fetch(ADOPTED, ids=list({row["event_id"] for row in rows}))
        pruned = await _prune_units(transaction, [row["id"] for row in adopted], retention)
        (inbox,) = await transaction.fetch(
            PRUNE_INBOX, event_ids=[row["event_id"] for row in rows], consumers=[row["consumer"] for row in rows]
        )
        self.forgotten(inbox["queues"])
        more = len(rows) == page
        last = rows[-1] if more else None
        self._after = (
            (_LONG_AGO, _FIRST, "") if last is None else (last["settled_at"], last["event_id"], last["consumer"])
        )
        return pruned + Pruned(inbox=inbox["inbox"]), more


@dataclass(slots=True)
class Letters:
    """Dead letters, in the order of the deaths."""

    _after: int = 0

    async def step(self, transaction: LedgerTransaction, retention: Retention, page: int) -> tuple[Pruned, bool]:
        """Take the closed letters of the next batch that are old enough."""
        (batch,) = await transaction.fetch(
            PRUNE_LETTERS, after=self._after, letters_seconds=retention.dead_letters.total_seconds(), page=page
        )
        more = batch["seen"] == page and not batch["young"]
        self._after = batch["last"] if more else 0
        return Pruned(letters=batch["letters"], lost=batch["lost"]), more


@dataclass(slots=True)
class Workers:
    """Rows of processes that ended without saying so."""

    async def step(self, transaction: LedgerTransaction, _: Retention, page: int) -> tuple[Pruned, bool]:
        """Take those that were silent for a day."""
        (gone,) = await transaction.fetch(PRUNE_WORKERS, silent_seconds=SILENT_SECONDS, page=page)
        return Pruned(workers=gone["workers"]), gone["workers"] == page
