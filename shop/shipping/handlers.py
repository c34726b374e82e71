"""The job of shipping."""

from shop.events import ParcelPacked
from shop.jobs import shipping
from shop.shipping.service import ShippingService


@shipping.handler("create-shipment", on=ParcelPacked, at_least_once=True)
async def create_shipment(event: ParcelPacked, service: ShippingService) -> str:
    """Hand a parcel over, and tell whoever waits for that its tracking number."""
    return await service.ship(event.order_id, event.number)
