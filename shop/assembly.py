"""How the modules are put together: the same pieces for the web process, the workers and the clean-up."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from shop.config import ShopSettings
from shop.database import Sessions
from shop.inventory.stock import Stock
from shop.maintenance.expired import ExpiredCheckouts
from shop.orders.checkouts import CheckoutRepository
from shop.orders.service import OrdersService
from shop.outbound import Partner, open_client
from shop.payments.gateway import HttpGateway
from shop.payments.service import PaymentsService


@asynccontextmanager
async def open_payments(settings: ShopSettings, sessions: Sessions) -> AsyncIterator[PaymentsService]:
    """Payments with a client for the gateway, closed at the end."""
    async with open_client(settings.gateway_url, settings.request_timeout) as client:
        gateway = HttpGateway(Partner("gateway", client, settings.request_timeout))
        yield PaymentsService(sessions, gateway)


def build_orders(settings: ShopSettings, sessions: Sessions, payments: PaymentsService) -> OrdersService:
    """The orders module over its neighbours."""
    return OrdersService(sessions, checkouts=_checkouts(settings), inventory=Stock(), payments=payments)


def build_clean_up(settings: ShopSettings, sessions: Sessions, payments: PaymentsService) -> ExpiredCheckouts:
    """The clean-up over the same."""
    return ExpiredCheckouts(sessions, checkouts=_checkouts(settings), inventory=Stock(), payments=payments)


def _checkouts(settings: ShopSettings) -> CheckoutRepository:
    return CheckoutRepository(busy_seconds=settings.checkout_busy, expiry_seconds=settings.checkout_expiry)
