"""The README tells the truth: its example runs."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine

from homing.config.settings import Settings
from tests.system import quick, running

README = Path(__file__).parents[2] / "README.md"


@pytest.fixture
def example() -> Iterator[Any]:
    """The README's Python block, as the module that a reader would save."""
    (block,) = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    module = ModuleType("readme_shop")
    sys.modules[module.__name__] = module
    exec(compile(block, str(README), "exec"), module.__dict__)  # noqa: S102 - our own page, executed on purpose
    yield module
    del sys.modules[module.__name__]


async def test_example_awards_points_once(example: Any, settings: Settings) -> None:
    """An order placed by the example's function ends as points on the customer's account."""
    engine = create_async_engine(settings.sqlalchemy_url)
    customer = uuid4()
    async with running(example.app, quick(settings)) as system:
        await system.sql.execute("CREATE TABLE orders (id uuid, total bigint)")
        await system.sql.execute("CREATE TABLE accounts (customer_id uuid, points bigint NOT NULL DEFAULT 0)")
        await system.sql.execute("INSERT INTO accounts VALUES ($1)", customer)
        await example.place_order(async_sessionmaker(engine), customer, 250_000)
        await system.settled()
        assert await system.sql.fetchval("SELECT points FROM accounts") == 25
    await engine.dispose()


def test_example_is_short(example: Any) -> None:
    """The example stays about thirty lines of code."""
    (block,) = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert len([line for line in block.splitlines() if line.strip()]) <= 35


def test_links_lead_somewhere() -> None:
    """Every relative link of the README names a file of the repository."""
    links = re.findall(r"\]\((?!http)([^)#]+)", README.read_text(encoding="utf-8"))
    missing = [link for link in links if not (README.parent / link).exists()]
    assert not missing
