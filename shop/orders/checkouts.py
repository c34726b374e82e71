"""Checkouts: one row per idempotency key, written before the gateway is asked, so that a crash leaves something to find.

Whoever works on a checkout holds it for a while, under a token of its own; only that holder can finish it. When the time is over,
the next request with the key, or the clean-up, takes it. Everything happens in the caller's transaction; nothing here commits.
"""

from dataclasses import dataclass
from typing import Any, Literal
from uuid import UUID, uuid4

from sqlalchemy import Row, text
from sqlalchemy.ext.asyncio import AsyncSession

from shop.orders.wish import order_id_for

Status = Literal["open", "ordered", "refused", "released"]

_OPEN = text("""
    INSERT INTO shop.checkouts (idempotency_key, fingerprint, order_id, holder, busy_until, expires_at)
    VALUES (:key, :fingerprint, :order_id, :holder, clock_timestamp() + make_interval(secs => :busy),
      clock_timestamp() + make_interval(secs => :expiry))
    ON CONFLICT (idempotency_key) DO NOTHING
    RETURNING idempotency_key AS key, fingerprint, order_id, status, refusal, attempts, holder""")

_FIND = text("""
    SELECT idempotency_key AS key, fingerprint, order_id, status, refusal, attempts, holder
    FROM shop.checkouts WHERE idempotency_key = :key""")

_TAKE_OVER = text("""
    UPDATE shop.checkouts SET holder = :holder, attempts = attempts + 1,
      busy_until = clock_timestamp() + make_interval(secs => :busy)
    WHERE idempotency_key = :key AND status = 'open' AND busy_until <= clock_timestamp()
    RETURNING idempotency_key AS key, fingerprint, order_id, status, refusal, attempts, holder""")

_TAKE_EXPIRED = text("""
    UPDATE shop.checkouts SET holder = :holder, attempts = attempts + 1,
      busy_until = clock_timestamp() + make_interval(secs => :busy)
    WHERE idempotency_key IN (
      SELECT idempotency_key FROM shop.checkouts
      WHERE status = 'open' AND expires_at <= clock_timestamp() AND busy_until <= clock_timestamp()
      ORDER BY expires_at LIMIT :limit FOR UPDATE SKIP LOCKED)
    RETURNING idempotency_key AS key, fingerprint, order_id, status, refusal, attempts, holder""")

_FINISH = text("""
    UPDATE shop.checkouts SET status = :status, refusal = cast(:refusal AS text)
    WHERE idempotency_key = :key AND holder = :holder AND status = 'open'
    RETURNING 1""")

_GIVE_BACK = text("""
    UPDATE shop.checkouts SET busy_until = clock_timestamp()
    WHERE idempotency_key = :key AND holder = :holder AND status = 'open'""")


@dataclass(frozen=True, slots=True)
class Checkout:
    """A customer's intent to buy; `attempts` counts the times that somebody worked on it, from 1."""

    key: str
    fingerprint: str
    order_id: UUID
    status: Status
    refusal: str | None
    attempts: int
    holder: UUID


class CheckoutRepository:
    """`busy_seconds`: how long a holder may work; `expiry_seconds`: when the clean-up may undo a new checkout."""

    def __init__(self, *, busy_seconds: float, expiry_seconds: float) -> None:
        self._busy_seconds = busy_seconds
        self._expiry_seconds = expiry_seconds

    async def open(self, tx: AsyncSession, key: str, fingerprint: str) -> Checkout | None:
        """Open a checkout and hold it; `None` when the key was used before."""
        values = {
            "key": key,
            "fingerprint": fingerprint,
            "order_id": order_id_for(key),
            "holder": uuid4(),
            "busy": self._busy_seconds,
            "expiry": self._expiry_seconds,
        }
        return _checkout((await tx.execute(_OPEN, values)).one_or_none())

    async def find(self, tx: AsyncSession, key: str) -> Checkout | None:
        """The checkout as it is, not held."""
        return _checkout((await tx.execute(_FIND, {"key": key})).one_or_none())

    async def take_over(self, tx: AsyncSession, key: str) -> Checkout | None:
        """Hold an open checkout that nobody works on any more; `None` when somebody does, or when it is finished."""
        values = {"key": key, "holder": uuid4(), "busy": self._busy_seconds}
        return _checkout((await tx.execute(_TAKE_OVER, values)).one_or_none())

    async def take_expired(self, tx: AsyncSession, limit: int) -> list[Checkout]:
        """Hold up to `limit` open checkouts whose time is over, to undo them."""
        rows = await tx.execute(_TAKE_EXPIRED, {"holder": uuid4(), "busy": self._busy_seconds, "limit": limit})
        return [_filled(row) for row in rows]

    async def finish(self, tx: AsyncSession, checkout: Checkout, status: Status, refusal: str | None = None) -> bool:
        """Close the checkout; False when we do not hold it any more, and then nothing of ours may be committed."""
        values = {"key": checkout.key, "holder": checkout.holder, "status": status, "refusal": refusal}
        return (await tx.execute(_FINISH, values)).one_or_none() is not None

    async def give_back(self, tx: AsyncSession, checkout: Checkout) -> None:
        """Let the next request have it at once."""
        await tx.execute(_GIVE_BACK, {"key": checkout.key, "holder": checkout.holder})


def _checkout(row: Row[tuple[Any, ...]] | None) -> Checkout | None:
    return None if row is None else _filled(row)


def _filled(row: Row[tuple[Any, ...]]) -> Checkout:
    return Checkout(**row._asdict())
