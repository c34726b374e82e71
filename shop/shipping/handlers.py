"""The job of shipping."""

from shop.events import PaymentCaptured
from shop.jobs import shipping
from shop.shipping.service import ShippingService


@shipping.handler("create-shipment", on=PaymentCaptured, at_least_once=True)
async def create_shipment(event: PaymentCaptured, service: ShippingService) -> None:
    """Hand the parcel over."""
    await service.ship(event.order_id)
