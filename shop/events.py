"""What happened in the shop. Needs no database, no queue and no app object."""

from uuid import UUID

from homing import Event
from shop.money import Dong


class OrderPlaced(Event, topic="order.placed", aggregate="order_id"):
    """An order is ours to fulfil: stock is taken, the money is held."""

    order_id: UUID
    customer_id: UUID
    total: Dong


class OrderCancelled(Event, topic="order.cancelled", aggregate="order_id"):
    """An order will not be fulfilled; the hold on the customer's money must go."""

    order_id: UUID


class PaymentCaptured(Event, topic="payment.captured", aggregate="order_id"):
    """The money of an order is ours."""

    order_id: UUID
    customer_id: UUID
    amount: Dong


class ParcelPacked(Event, topic="parcel.packed", aggregate="order_id"):
    """One of the parcels of an order is ready to go: it is told to shipping by whoever waits for its tracking number, and recorded nowhere."""

    order_id: UUID
    number: int
