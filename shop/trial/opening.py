"""Everything a trial needs, started in order and taken down in reverse."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from homing.embedded import Servers, open_servers, stop_with_parent
from shop.config import DatabaseSettings
from shop.database import open_engine, sessions_of
from shop.inventory.stock import Stock
from shop.providers.process import KnobValue, ProviderName, ProviderProcess
from shop.trial.children import HOMING, run
from shop.trial.goods import GOODS
from shop.trial.guard import Guard
from shop.trial.options import Trial
from shop.trial.stage import Cast, Stage

PIECES_PER_ORDER = 10
"""Of everything on sale: nobody finds the shelves empty."""


@dataclass(frozen=True)
class Given:
    """Servers that somebody else runs, by their URLs; `None` = start one of our own."""

    database_url: str | None = None
    redis_url: str | None = None

    @classmethod
    def by_variables(cls) -> "Given":
        """Those that `DATABASE_URL` and `REDIS_URL` name, with or without `HOMING_` before them."""
        return cls(
            os.environ.get("HOMING_DATABASE_URL") or os.environ.get("DATABASE_URL"),
            os.environ.get("HOMING_REDIS_URL") or os.environ.get("REDIS_URL"),
        )


@asynccontextmanager
async def open_stage(
    trial: Trial, folder: Path, say: Callable[[str], None], *, cast: Cast | None = None, given: Given | None = None
) -> AsyncIterator[Stage]:
    """Start servers, tables, partners, API, relay, workers and clean-up; stop all of them at the end, whatever happened.

    `given` are the servers to use, by default those that the environment names.
    """
    cast = cast or Cast()
    async with AsyncExitStack() as stack:
        say("starting PostgreSQL and Valkey, the payment gateway, the carrier and the mail server")
        stage = await _set_up(trial, folder, cast, given or Given.by_variables(), stack)
        say("creating the tables")
        await run("homing-migrate", [HOMING, "migrate"], stage.environment, stage.logs, stage.guard)
        await run("shop-migrate", [sys.executable, "-m", "shop.migrate"], stage.environment, stage.logs, stage.guard)
        await _fill_shelves(stage.servers.database_url, trial.orders)
        stack.callback(stage.stop)
        say(f"starting {cast.apis} API, {cast.relays} relay and {cast.workers} worker processes")
        await _open_processes(stage, cast)
        yield stage


async def _set_up(trial: Trial, folder: Path, cast: Cast, given: Given, stack: AsyncExitStack) -> Stage:
    """Servers and partners: what our own processes need to start."""
    logs = folder / "logs"
    logs.mkdir()
    guard = Guard()
    stack.callback(guard.dismiss)
    servers = await asyncio.to_thread(_open_servers, folder, given, cast)
    stack.callback(servers.stop)
    for server in filter(None, (servers.postgres, servers.valkey)):
        stop_with_parent(server)
    gateway, carrier, mailbox = await asyncio.to_thread(_open_partners, trial, cast, logs, stack)
    return Stage(
        folder=folder,
        servers=servers,
        gateway=gateway,
        carrier=carrier,
        mailbox=mailbox,
        environment={**_environment(servers, gateway, carrier, mailbox), **cast.environment},
        guard=guard,
    )


def _open_servers(folder: Path, given: Given, cast: Cast) -> Servers:
    return open_servers(
        folder / "servers",
        database_url=given.database_url,
        redis_url=given.redis_url,
        postgres_settings=cast.postgres_settings,
    )


def _open_partners(
    trial: Trial, cast: Cast, logs: Path, stack: AsyncExitStack
) -> tuple[ProviderProcess, ProviderProcess, ProviderProcess]:
    def open_partner(name: ProviderName, knobs: Mapping[str, KnobValue]) -> ProviderProcess:
        partner = ProviderProcess.start(name, logs, seed=trial.seed)
        stack.callback(partner.stop)
        partner.control(**knobs)
        return partner

    gateway, carrier = open_partner("gateway", cast.gateway), open_partner("carrier", cast.carrier)
    return gateway, carrier, open_partner("mailbox", cast.mailbox)


def _environment(
    servers: Servers, gateway: ProviderProcess, carrier: ProviderProcess, mailbox: ProviderProcess
) -> Mapping[str, str]:
    return {
        "HOMING_APP": "shop.jobs:app",
        "HOMING_DATABASE_URL": servers.database_url,
        "HOMING_REDIS_URL": servers.redis_url,
        "HOMING_LOG_FORMAT": "json",
        "HOMING_HTTP_ADDRESS": "off",
        "SHOP_DATABASE_URL": servers.database_url,
        "SHOP_GATEWAY_URL": gateway.url,
        "SHOP_CARRIER_URL": carrier.url,
        "SHOP_CARRIER_API_KEY": "trial",
        "SHOP_SMTP_HOST": str(mailbox.smtp_host),
        "SHOP_SMTP_PORT": str(mailbox.smtp_port),
        "SHOP_SHIPPING_RATE": "25",
    }


async def _fill_shelves(database_url: str, orders: int) -> None:
    engine = open_engine(DatabaseSettings(database_url=database_url).sqlalchemy_url)
    try:
        async with sessions_of(engine).begin() as tx:
            for sku, price in GOODS.items():
                pieces = PIECES_PER_ORDER * orders
                await Stock().put_on_sale(tx, sku, unit_price=price, weight_grams=5_000, pieces=pieces)
    finally:
        await engine.dispose()


async def _open_processes(stage: Stage, cast: Cast) -> None:
    apis = [stage.apis.add() for _ in range(cast.apis)]
    relays = [stage.relays.add() for _ in range(cast.relays)]
    stage.clean_ups.add()
    workers = [stage.workers.add() for _ in range(cast.workers)]
    for api in apis:
        await api.until_it_answers()
    for relay in relays:
        await relay.until_it_says("relay ready")
    for worker in workers:
        await worker.until_it_says("worker ready")
