"""The order: what it is, what may happen to it, and what it remembers until that is saved."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal
from uuid import UUID

from homing import Event
from shop.events import OrderCancelled, OrderPlaced
from shop.money import whole_dong

Status = Literal["placed", "cancelled"]


@dataclass(frozen=True, slots=True)
class Line:
    """So many pieces of one product, at the price (whole dong) of the moment they were reserved."""

    sku: str
    quantity: int
    unit_price: int

    def __post_init__(self) -> None:
        whole_dong(self.unit_price)
        if type(self.quantity) is not int or self.quantity < 1:
            raise ValueError(f"{self.quantity!r} × {self.sku!r}: a quantity is a whole number from 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """A value: what happens to an order gives a new one that carries the events of the change.

    The events stay with it until `saved` says that they are committed. A save that was rolled back is simply repeated, and records
    the same events under the same ids.
    """

    id: UUID
    customer_id: UUID
    email: str
    address: str
    lines: tuple[Line, ...]
    weight_grams: int
    status: Status = "placed"
    events: tuple[Event, ...] = ()

    @classmethod
    def place(
        cls,
        *,
        id: UUID,  # noqa: A002 - the field's own name
        customer_id: UUID,
        email: str,
        address: str,
        lines: Sequence[Line],
        weight_grams: int,
    ) -> "Order":
        """A new order of at least one line."""
        if not lines:
            raise ValueError(f"order {id} has no lines: an order is for at least one product")
        order = cls(
            id=id,
            customer_id=customer_id,
            email=email,
            address=address,
            lines=tuple(lines),
            weight_grams=weight_grams,
        )
        return replace(order, events=(OrderPlaced(order_id=id, customer_id=customer_id, total=order.total),))

    @property
    def total(self) -> int:
        """The price of everything, in whole dong."""
        return whole_dong(sum(line.quantity * line.unit_price for line in self.lines))

    def cancel(self) -> "Order":
        """The order, cancelled; an order that is cancelled already comes back as it is, without another event."""
        if self.status == "cancelled":
            return self
        return replace(self, status="cancelled", events=(*self.events, OrderCancelled(order_id=self.id)))

    def pull_events(self) -> tuple[Event, ...]:
        """The events that no commit holds yet. Asking does not forget them: the transaction may still be rolled back."""
        return self.events

    def saved(self) -> "Order":
        """The order after its save was committed: its events are the outbox's now."""
        return replace(self, events=())
