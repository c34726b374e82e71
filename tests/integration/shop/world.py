"""A whole shop for one test: its services, its database, its partners as processes, and a look at what really happened."""

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self
from uuid import UUID, uuid4

import httpx
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from shop.api import create_api
from shop.assembly import build_clean_up, build_orders
from shop.config import ShopSettings
from shop.database import Sessions, open_engine, sessions_of
from shop.inventory.stock import Stock
from shop.maintenance.expired import ExpiredCheckouts
from shop.migrate import migrate
from shop.notifications.mailer import SmtpMailer
from shop.notifications.service import NotificationsService
from shop.orders.reader import OrderReader
from shop.orders.service import OrdersService
from shop.orders.wish import WantedLine, Wish
from shop.outbound import Partner, open_client
from shop.payments.gateway import HttpGateway
from shop.payments.service import PaymentsService
from shop.providers.process import ProviderProcess
from shop.shipping.carrier import HttpCarrier
from shop.shipping.service import ShippingService

SKU = "rice-cooker"
PRICE = 250_000
PIECES = 10

_TABLES = {
    "stock": "SELECT sku, available FROM shop.stock ORDER BY sku",
    "checkouts": "SELECT order_id, status, refusal FROM shop.checkouts ORDER BY order_id",
    "reservations": "SELECT order_id, sku, quantity, released_at FROM shop.reservations ORDER BY order_id, sku",
    "orders": "SELECT id, status, total, cancelled_at FROM shop.orders ORDER BY id",
    "payments": "SELECT order_id, status, capture_id, changed_at FROM shop.payments ORDER BY order_id",
    "emails": "SELECT kind, order_id, sent_at FROM shop.sent_emails ORDER BY order_id, kind",
    "shipments": "SELECT order_id, parcel, tracking_number, recorded_at FROM shop.shipments ORDER BY order_id, parcel",
    "points": "SELECT customer_id, points FROM shop.loyalty_accounts ORDER BY customer_id",
    "events": "SELECT topic, aggregate_id, payload FROM homing.outbox_events ORDER BY created_at, id",
}


@dataclass(frozen=True, kw_only=True)
class Partners:
    """The outside world as processes."""

    gateway: ProviderProcess
    carrier: ProviderProcess
    mailbox: ProviderProcess

    @classmethod
    @contextmanager
    def running(cls, logs: Path) -> Iterator[Self]:
        """All three, until the end of the block."""
        with (
            ProviderProcess.start("gateway", logs) as gateway,
            ProviderProcess.start("carrier", logs) as carrier,
            ProviderProcess.start("mailbox", logs) as mailbox,
        ):
            yield cls(gateway=gateway, carrier=carrier, mailbox=mailbox)

    def reset(self) -> None:
        """In good health, and without history."""
        for partner in (self.gateway, self.carrier, self.mailbox):
            partner.reset(ledger=True)

    def settings(self, database_url: str, **changes: float) -> ShopSettings:
        """The settings of a shop that talks to these."""
        return ShopSettings.model_validate(
            {
                "database_url": database_url,
                "gateway_url": self.gateway.url,
                "carrier_url": self.carrier.url,
                "carrier_api_key": "test-key",
                "smtp_host": self.mailbox.smtp_host,
                "smtp_port": self.mailbox.smtp_port,
                **changes,
            }
        )


@dataclass(frozen=True, kw_only=True)
class World:
    """The shop and its partners."""

    settings: ShopSettings
    partners: Partners
    engine: AsyncEngine
    sessions: Sessions
    http_gateway: HttpGateway
    carrier: HttpCarrier
    payments: PaymentsService
    orders: OrdersService
    clean_up: ExpiredCheckouts
    notifications: NotificationsService
    shipping: ShippingService

    @classmethod
    @asynccontextmanager
    async def open(cls, settings: ShopSettings, partners: Partners) -> AsyncIterator[Self]:
        """Create the tables, put one product on sale, and build every service."""
        await migrate(settings.database_url)
        async with AsyncExitStack() as stack:
            engine = open_engine(settings.sqlalchemy_url)
            stack.push_async_callback(engine.dispose)
            sessions = sessions_of(engine)
            timeout = settings.request_timeout
            client = await stack.enter_async_context(open_client(settings.gateway_url, timeout))
            key = settings.carrier_api_key.get_secret_value()
            carrier_client = open_client(settings.carrier_url, timeout, {"X-Api-Key": key})
            carrier = HttpCarrier(Partner("carrier", await stack.enter_async_context(carrier_client), timeout))
            gateway = HttpGateway(Partner("gateway", client, timeout))
            payments = PaymentsService(sessions, gateway)
            reader = OrderReader(sessions)
            mailer = SmtpMailer(host=settings.smtp_host, port=settings.smtp_port, timeout_seconds=timeout)
            async with sessions.begin() as tx:
                await Stock().put_on_sale(tx, SKU, unit_price=PRICE, weight_grams=3_000, pieces=PIECES)
            yield cls(
                settings=settings,
                partners=partners,
                engine=engine,
                sessions=sessions,
                http_gateway=gateway,
                carrier=carrier,
                payments=payments,
                orders=build_orders(settings, sessions, payments),
                clean_up=build_clean_up(settings, sessions, payments),
                notifications=NotificationsService(sessions, orders=reader, mailer=mailer, sender=settings.sender),
                shipping=ShippingService(sessions, orders=reader, carrier=carrier),
            )

    async def rows(self, table: str) -> list[dict[str, Any]]:
        """The rows of one of `_TABLES`."""
        async with self.engine.connect() as connection:
            found = await connection.execute(text(_TABLES[table]))
            return [dict(row) for row in found.mappings()]

    async def row(self, table: str) -> dict[str, Any]:
        """The only row of a table."""
        (row,) = await self.rows(table)
        return row

    async def topics(self) -> list[str]:
        """The topics of everything recorded, oldest first."""
        return [event["topic"] for event in await self.rows("events")]

    async def left(self) -> int:
        """The pieces that can still be sold."""
        return int((await self.row("stock"))["available"])

    async def effects(self) -> dict[str, Any]:
        """Everything that really happened, here and at the partners; requests that changed nothing are not in it."""
        holds = self.partners.gateway.ledger()["authorizations"]
        return {
            **{table: await self.rows(table) for table in _TABLES},
            "holds": [(hold["id"], hold["status"], hold["captures"], hold["voids"]) for hold in holds],
            "parcels": self.partners.carrier.ledger()["shipments"],
            "messages": self.partners.mailbox.ledger()["messages"],
        }

    def hold(self) -> dict[str, Any]:
        """The gateway's only authorization, with what happened to it."""
        (hold,) = self.partners.gateway.ledger()["authorizations"]
        return dict(hold)

    def keys(self, operation: str) -> Mapping[str, int]:
        """The idempotency keys that the gateway saw for an operation on its only authorization, and how often."""
        requests = self.hold()["requests"]
        return dict(requests[operation]["keys"]) if operation in requests else {}

    async def place(self, *, quantity: int = 1, key: str | None = None) -> UUID:
        """Place an order and return its id."""
        placed = await self.orders.place_order(wish(quantity=quantity), key or uuid4().hex)
        return placed.order.id

    @asynccontextmanager
    async def api(self) -> AsyncIterator[httpx.AsyncClient]:
        """A client of the running API, in this process."""
        api = create_api(self.settings)
        async with (
            api.router.lifespan_context(api),
            httpx.AsyncClient(transport=httpx.ASGITransport(app=api), base_url="http://shop") as client,
        ):
            yield client


CUSTOMER = uuid4()


def wish(*, quantity: int = 1, sku: str = SKU) -> Wish:
    """What a customer of these tests wants."""
    return Wish(
        customer_id=CUSTOMER,
        email="lan@customers.example",
        address="1 Le Loi, Hue",
        lines=[WantedLine(sku=sku, quantity=quantity)],
    )
