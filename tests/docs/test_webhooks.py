"""The page on webhooks tells the truth: its code runs."""

import asyncio
import re
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import asyncpg
import httpx
import pytest
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine

from homing import once
from homing.config.settings import Settings

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "webhooks.md"
ACCOUNTS = "CREATE TABLE accounts (id bigint PRIMARY KEY, balance bigint CHECK (balance < 100)); INSERT INTO accounts VALUES (1, 0)"


@pytest.fixture
def page() -> Iterator[Any]:
    """The page's Python block, as the module that a reader would save."""
    (block,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    module = ModuleType("webhooks_page")
    sys.modules[module.__name__] = module
    exec(compile(block, str(PAGE), "exec"), module.__dict__)  # noqa: S102 - our own page, executed on purpose
    yield module
    del sys.modules[module.__name__]


@asynccontextmanager
async def served(page: Any, settings: Settings, **server_settings: str) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the page's API, whose connections have these settings."""
    engine = create_async_engine(settings.sqlalchemy_url, connect_args={"server_settings": server_settings})
    transport = httpx.ASGITransport(page.make_api(async_sessionmaker(engine)), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://shop") as client:
        yield client
    await engine.dispose()


async def send(client: httpx.AsyncClient, message: str, amount: int) -> httpx.Response:
    """One hook."""
    hook = {"id": message, "payment": "p1", "account": 1, "amount": amount}
    return await client.post("/hooks/payments", json=hook)


async def test_copies_of_a_hook_count_once(page: Any, settings: Settings) -> None:
    """Five copies at once book once and record one event; a hook that failed is the first again; a busy one is told to come back."""
    sql = await asyncpg.connect(settings.asyncpg_dsn)
    await sql.execute(ACCOUNTS)
    async with served(page, settings) as client:
        answers = await asyncio.gather(*(send(client, "evt_1", 7) for _ in range(5)))
        assert Counter(answer.json()["first"] for answer in answers) == {True: 1, False: 4}
        assert (await send(client, "evt_2", 100)).status_code == 500
        assert (await send(client, "evt_2", 2)).json() == {"first": True}
    async with served(page, settings, lock_timeout="50ms") as hasty, sql.transaction():
        assert await once(sql, "hooks.payments", "evt_3")
        assert (await send(hasty, "evt_3", 1)).status_code == 503
    assert await sql.fetchval("SELECT balance FROM accounts") == 9
    assert await sql.fetchval("SELECT count(*) FROM homing.outbox_events") == 2
    await sql.close()
