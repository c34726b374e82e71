"""The web process killed between holding the money and saving the order."""

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import httpx
import pytest
from sqlalchemy import text

from shop.config import ShopSettings
from shop.maintenance.expired import Swept
from shop.orders.wish import order_id_for
from shop.providers.process import ProviderProcess
from tests.crash.shop_processes import ROOT, environment_of, running
from tests.integration.shop.world import PIECES, Partners, World, wish
from tests.waiting import until, wait_until

PATIENCE_SECONDS = 1.0
KEY = "killed"


@pytest.fixture
def partners(tmp_path: Path) -> Iterator[Partners]:
    """Partners of this test's own."""
    with (
        ProviderProcess.start("gateway", tmp_path) as gateway,
        ProviderProcess.start("carrier", tmp_path) as carrier,
        ProviderProcess.start("mailbox", tmp_path) as mailbox,
    ):
        yield Partners(gateway=gateway, carrier=carrier, mailbox=mailbox)


@pytest.fixture
async def world(database_url: str, partners: Partners) -> AsyncIterator[World]:
    """A shop whose checkouts are given up after a second or two."""
    settings = partners.settings(
        database_url,
        request_timeout=PATIENCE_SECONDS,
        checkout_busy=2.5 * PATIENCE_SECONDS,
        checkout_expiry=2.5 * PATIENCE_SECONDS,
    )
    async with World.open(settings, partners) as world:
        yield world


@contextmanager
def _api(settings: ShopSettings, folder: Path) -> Iterator[tuple[str, "subprocess.Popen[bytes]"]]:
    """Run the API as a process; its address and itself."""
    ready = folder / "ready.json"
    ready.unlink(missing_ok=True)
    command = [sys.executable, "-m", "shop.api", "--port", "0", "--ready-file", str(ready)]
    with running(command, environment_of(settings), folder / "api.log") as process:
        wait_until(lambda: ready.exists() or process.poll() is not None, 30, "the API answers")
        assert ready.exists(), (folder / "api.log").read_text()
        yield json.loads(ready.read_text())["url"], process


@asynccontextmanager
async def _client(url: str) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=url, timeout=30, trust_env=False) as client:
        yield client


async def _post(client: httpx.AsyncClient) -> httpx.Response:
    body = wish().model_dump(mode="json", by_alias=True)
    return await client.post("/orders", json=body, headers={"Idempotency-Key": KEY})


async def _kill_while_the_gateway_hangs(world: World, folder: Path) -> None:
    """POST an order and kill the API when the gateway holds the money and has not said so."""
    gateway = world.partners.gateway
    gateway.control(hang_after_effect=1, only=["authorize"])
    with _api(world.settings, folder) as (url, process):
        async with _client(url) as client:
            asking = asyncio.ensure_future(_post(client))
            await asyncio.to_thread(gateway.wait_until_held)
            process.kill()
            with pytest.raises(httpx.TransportError):
                await asking
    gateway.release()
    assert world.hold()["status"] == "authorized"
    assert await world.rows("orders") == []
    assert await world.left() == PIECES - 1


async def test_the_same_key_retried_gives_one_order_and_one_hold(world: World, tmp_path: Path) -> None:
    """A new process goes on where the killed one stopped, as soon as that one's time is over."""
    await _kill_while_the_gateway_hangs(world, tmp_path)
    with _api(world.settings, tmp_path) as (url, _):
        async with _client(url) as client:

            async def placed() -> httpx.Response | None:
                answer = await _post(client)
                assert answer.status_code in (201, 409), answer.text
                return answer if answer.status_code == 201 else None

            answer = await until(placed, 20, "the checkout may be taken over")
    assert answer is not None
    assert answer.json()["id"] == str(order_id_for(KEY))
    assert len(await world.rows("orders")) == 1
    assert await world.topics() == ["order.placed"]
    assert world.keys("authorize") == {f"authorize-{order_id_for(KEY)}": 1}
    assert await world.left() == PIECES - 1


async def test_without_a_retry_the_clean_up_gives_stock_and_money_back(world: World, tmp_path: Path) -> None:
    """The clean-up, as the process that people run, finds the checkout after its time and undoes it."""
    await _kill_while_the_gateway_hangs(world, tmp_path)
    async with world.engine.begin() as connection:
        await connection.execute(text("UPDATE shop.checkouts SET expires_at = now(), busy_until = now()"))
    swept = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", "shop.maintenance", "--once"],
        cwd=ROOT,
        env=environment_of(world.settings),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert swept.returncode == 0, swept.stderr
    assert "released=1 voided=1 failed=0" in swept.stderr
    assert world.hold()["status"] == "voided"
    assert await world.left() == PIECES
    assert await world.rows("orders") == []
    assert await world.clean_up.release() == Swept()
