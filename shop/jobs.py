"""The app of the workers and the relay: queues, and what their handlers are given. The web process never imports this."""

from collections.abc import AsyncIterator

from homing import FOREVER, Homing, Keep, Provider, RateLimit, Retry, backoff
from homing.durations import days, minutes, seconds
from shop.assembly import open_payments
from shop.config import PaceSettings, load_shop_settings
from shop.database import check_tables, open_engine, sessions_of
from shop.maintenance.outbox import OutboxCleanUp
from shop.notifications.mailer import SmtpMailer
from shop.notifications.service import NotificationsService
from shop.orders.port import Orders
from shop.orders.reader import OrderReader
from shop.outbound import Partner, open_client
from shop.shipping.carrier import HttpCarrier
from shop.shipping.service import ShippingService

app = Homing(
    "shop",
    include=[
        "shop.payments.handlers",
        "shop.notifications.handlers",
        "shop.shipping.handlers",
        "shop.loyalty.handlers",
        "shop.maintenance.handlers",
    ],
)

payments = app.queue(  # rare and expensive: long patience, and what failed stays until a person has seen it
    "payments",
    retry=Retry(attempts=12, backoff=backoff.capped(seconds(2), cap=minutes(15))),
    keep_completed=Keep(age=days(7)),
    keep_failed=FOREVER,
    alert="each",
)
notifications = app.queue("notifications")
_pace = PaceSettings()  # a limit is part of a queue's declaration, so this one setting is read here
shipping = app.queue(  # one queue for one partner: when the carrier is down, nobody else waits
    "shipping", concurrency=_pace.shipping_concurrency, limit=RateLimit(_pace.shipping_rate, per=seconds(1))
)
loyalty = app.queue("loyalty")
maintenance = app.queue("maintenance")


@app.lifespan
async def resources(provide: Provider) -> AsyncIterator[None]:
    """What the handlers of one worker share: one engine, one client per partner."""
    settings = load_shop_settings()
    engine = open_engine(app.settings.sqlalchemy_url)
    sessions = sessions_of(engine)
    timeout, key = settings.request_timeout, settings.carrier_api_key.get_secret_value()
    orders = OrderReader(sessions)
    mailer = SmtpMailer(host=settings.smtp_host, port=settings.smtp_port, timeout_seconds=timeout)
    try:
        await check_tables(engine)
        async with (
            open_payments(settings, sessions) as payments_service,
            open_client(settings.carrier_url, timeout, {"X-Api-Key": key}) as carrier_client,
        ):
            carrier = HttpCarrier(Partner("carrier", carrier_client, timeout))
            provide(sessions)
            provide(OutboxCleanUp(app))
            provide(orders, as_=Orders)
            provide(payments_service)
            provide(NotificationsService(sessions, orders=orders, mailer=mailer, sender=settings.sender))
            provide(ShippingService(sessions, orders=orders, carrier=carrier))
            yield
    finally:
        await engine.dispose()
