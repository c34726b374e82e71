"""Everything a demonstration needs, started in order and taken down in reverse."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from homing.embedded import Servers, open_servers, stop_with_parent
from shop.config import DatabaseSettings
from shop.database import open_engine, sessions_of
from shop.demo.children import HOMING, Child, run, start, stop_all
from shop.demo.goods import GOODS
from shop.demo.guard import Guard
from shop.demo.options import Options
from shop.inventory.stock import Stock
from shop.providers.process import ProviderProcess

WORKERS = 2

HASTE = {"HOMING_LEASE": "5s", "HOMING_BEAT": "1s", "HOMING_RESCUE": "2s", "HOMING_SHUTDOWN_GRACE": "5s"}
"""Losses are noticed within seconds here; the defaults take half a minute."""


@dataclass(kw_only=True)
class Stage:
    """The running system. `workers` changes as they are killed and replaced."""

    logs: Path
    servers: Servers
    gateway: ProviderProcess
    carrier: ProviderProcess
    mailbox: ProviderProcess
    environment: Mapping[str, str]
    guard: Guard
    api_url: str = ""
    workers: list[Child] = field(default_factory=list)
    others: list[Child] = field(default_factory=list)
    started: int = 0

    def start(self, name: str, command: list[str]) -> Child:
        """Start a process of this stage."""
        return start(name, command, self.environment, self.logs, self.guard)

    def start_worker(self) -> Child:
        """Start one more worker, under a name that was not used before."""
        self.started += 1
        worker = self.start(f"worker-{self.started}", _homing("worker", "--no-relay"))
        self.workers.append(worker)
        return worker

    def kill_worker(self, worker: Child) -> None:
        """SIGKILL: no last word, no clean-up."""
        self.workers.remove(worker)
        worker.kill()

    def stop(self) -> None:
        """Stop our own processes, the shop's first."""
        stop_all([*self.workers, *self.others])


@asynccontextmanager
async def open_stage(options: Options, folder: Path, say: Callable[[str], None]) -> AsyncIterator[Stage]:
    """Start servers, tables, partners, API, relay, workers and clean-up; stop all of them at the end, whatever happened."""
    logs = folder / "logs"
    logs.mkdir()
    async with AsyncExitStack() as stack:
        guard = Guard()
        stack.callback(guard.dismiss)
        say("starting PostgreSQL and Valkey")
        servers = await asyncio.to_thread(_open_servers, folder)
        stack.callback(servers.stop)
        for server in filter(None, (servers.postgres, servers.valkey)):
            stop_with_parent(server)
        say("starting the payment gateway, the carrier and the mail server")
        gateway, carrier, mailbox = await asyncio.to_thread(_open_partners, options, logs, stack)
        environment = _environment(servers, gateway, carrier, mailbox)
        stage = Stage(
            logs=logs,
            servers=servers,
            gateway=gateway,
            carrier=carrier,
            mailbox=mailbox,
            environment=environment,
            guard=guard,
        )
        say("creating the tables")
        await run("homing-migrate", _homing("migrate"), environment, logs, guard)
        await run("shop-migrate", [sys.executable, "-m", "shop.migrate"], environment, logs, guard)
        await _fill_shelves(servers.database_url, options.orders)
        stack.callback(stage.stop)
        say(f"starting the API, the relay and {WORKERS} workers")
        await _open_processes(stage, folder)
        yield stage


def _open_servers(folder: Path) -> Servers:
    return open_servers(
        folder / "servers",
        database_url=os.environ.get("HOMING_DATABASE_URL") or os.environ.get("DATABASE_URL"),
        redis_url=os.environ.get("HOMING_REDIS_URL") or os.environ.get("REDIS_URL"),
    )


def _open_partners(
    options: Options, logs: Path, stack: AsyncExitStack
) -> tuple[ProviderProcess, ProviderProcess, ProviderProcess]:
    """Partners that take their time; the gateway now and then does what it was asked and says that it failed."""
    gateway = ProviderProcess.start("gateway", logs, seed=options.seed, latency_ms=120, fail_after_effect=0.05)
    stack.callback(gateway.stop)
    carrier = ProviderProcess.start("carrier", logs, seed=options.seed, latency_ms=60, throttle=60)
    stack.callback(carrier.stop)
    mailbox = ProviderProcess.start("mailbox", logs, seed=options.seed, latency_ms=80)
    stack.callback(mailbox.stop)
    return gateway, carrier, mailbox


def _environment(
    servers: Servers, gateway: ProviderProcess, carrier: ProviderProcess, mailbox: ProviderProcess
) -> dict[str, str]:
    return {
        **HASTE,
        "HOMING_APP": "shop.jobs:app",
        "HOMING_DATABASE_URL": servers.database_url,
        "HOMING_REDIS_URL": servers.redis_url,
        "HOMING_LOG_FORMAT": "json",
        "SHOP_DATABASE_URL": servers.database_url,
        "SHOP_GATEWAY_URL": gateway.url,
        "SHOP_CARRIER_URL": carrier.url,
        "SHOP_CARRIER_API_KEY": "demo",
        "SHOP_SMTP_HOST": str(mailbox.smtp_host),
        "SHOP_SMTP_PORT": str(mailbox.smtp_port),
        "SHOP_SHIPPING_RATE": "25",
    }


async def _fill_shelves(database_url: str, orders: int) -> None:
    engine = open_engine(DatabaseSettings(database_url=database_url).sqlalchemy_url)
    try:
        async with sessions_of(engine).begin() as tx:
            for sku, price in GOODS.items():
                await Stock().put_on_sale(tx, sku, unit_price=price, weight_grams=500, pieces=10 * orders)
    finally:
        await engine.dispose()


async def _open_processes(stage: Stage, folder: Path) -> None:
    ready_file = folder / "api.json"
    python = [sys.executable, "-m"]
    api = stage.start("api", [*python, "shop.api", "--port=0", f"--ready-file={ready_file}"])
    relay = stage.start("relay", _homing("relay"))
    stage.others += [api, relay, stage.start("clean-up", [*python, "shop.maintenance", "--every=5"])]
    workers = [stage.start_worker() for _ in range(WORKERS)]
    stage.api_url = await api.until_it_writes(ready_file)
    await relay.until_it_says("relay ready")
    for worker in workers:
        await worker.until_it_says("worker ready")


def _homing(*arguments: str) -> list[str]:
    return [HOMING, *arguments]
