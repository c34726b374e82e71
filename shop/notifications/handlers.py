"""The jobs of notifications."""

from homing import Child, Flow
from shop.events import OrderPlaced, ParcelPacked, PaymentCaptured
from shop.jobs import notifications
from shop.notifications.service import NotificationsService
from shop.orders.port import Orders


@notifications.handler("confirm-order", on=OrderPlaced, at_least_once=True)
async def confirm_order(event: OrderPlaced, service: NotificationsService) -> None:
    """Tell the customer that the order arrived."""
    await service.confirm_order(event.order_id)


@notifications.handler("send-invoice", on=PaymentCaptured, at_least_once=True)
async def send_invoice(event: PaymentCaptured, flow: Flow, service: NotificationsService, orders: Orders) -> None:
    """Have every parcel of a paid order shipped, and send one invoice when all of them are on their way.

    Called again once the last of them is: what stands before the wait is done twice, and only reads.
    """
    numbers = range(1, len(await orders.parcels_of(event.order_id)) + 1)
    shipped = await flow.wait_for(
        *(
            Child(
                "shipping.create-shipment", ParcelPacked(order_id=event.order_id, number=number), key=f"parcel-{number}"
            )
            for number in numbers
        )
    )
    await service.send_invoice(event.order_id, [shipped.values[f"parcel-{number}"] for number in numbers])
