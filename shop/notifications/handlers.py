"""The job of notifications."""

from shop.events import OrderPlaced
from shop.jobs import notifications
from shop.notifications.service import NotificationsService


@notifications.handler("confirm-order", on=OrderPlaced, at_least_once=True)
async def confirm_order(event: OrderPlaced, service: NotificationsService) -> None:
    """Tell the customer that the order arrived."""
    await service.confirm_order(event.order_id)
