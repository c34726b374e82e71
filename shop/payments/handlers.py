"""The jobs of payments: their effect is at the gateway, so they may run again, and say so."""

from homing.durations import seconds
from shop.events import OrderCancelled, OrderPlaced
from shop.jobs import payments
from shop.payments.service import PaymentsService


@payments.handler("capture-payment", on=OrderPlaced, at_least_once=True, timeout=seconds(45))
async def capture_payment(event: OrderPlaced, service: PaymentsService) -> None:
    """Take the money."""
    await service.capture_for_order(event.order_id)


@payments.handler("void-authorization", on=OrderCancelled, at_least_once=True, timeout=seconds(45))
async def void_authorization(event: OrderCancelled, service: PaymentsService) -> None:
    """Let the money go."""
    await service.void_for_order(event.order_id)
