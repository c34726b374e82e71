"""Starting the shop's processes where something is missing: one message that says what to do, and a status that says whose fault."""

import asyncio
import subprocess
import sys

import pytest
from sqlalchemy import text

from shop.migrate import migrate
from tests.crash.shop_processes import ROOT, environment_of
from tests.integration.shop.world import Partners, World

NOBODY = "postgresql://shop:secret@127.0.0.1:9/shop"


def _run(module: str, partners: Partners, database_url: str, **more: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", module, *(["--once"] if module.endswith("maintenance") else ["--port=0"])]
    environment = environment_of(partners.settings(database_url), more)
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("module", ["shop.api", "shop.maintenance"])
def test_missing_tables_are_named_with_the_remedy(partners: Partners, database_url: str, module: str) -> None:
    """A database without the shop's tables ends the start with status 3 and the command to type."""
    ended = _run(module, partners, database_url)
    assert ended.returncode == 3
    assert "shop.checkouts, shop.orders: run `homing migrate` and `python -m shop.migrate`" in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("module", ["shop.api", "shop.maintenance"])
def test_a_missing_ledger_is_named_too(partners: Partners, empty_database_url: str, module: str) -> None:
    """The shop's own tables are not enough: events need the outbox."""
    asyncio.run(migrate(empty_database_url))
    ended = _run(module, partners, empty_database_url)
    assert ended.returncode == 3
    assert "lacks homing.outbox_events" in ended.stderr


@pytest.mark.parametrize("module", ["shop.api", "shop.maintenance"])
def test_an_unreachable_database_is_named(partners: Partners, module: str) -> None:
    """Nobody listens there: status 4, the address, and no password."""
    ended = _run(module, partners, NOBODY)
    assert ended.returncode == 4
    assert "PostgreSQL at 127.0.0.1:9/shop does not serve us" in ended.stderr
    assert "secret" not in ended.stderr


def test_a_wrong_setting_is_named(partners: Partners, database_url: str) -> None:
    """A misspelt variable ends the start with status 3 and a suggestion."""
    ended = _run("shop.api", partners, database_url, SHOP_GATEWY_URL="http://x")
    assert ended.returncode == 3
    assert "unknown variable SHOP_GATEWY_URL: did you mean SHOP_GATEWAY_URL?" in ended.stderr


async def test_migrating_again_changes_nothing(world: World) -> None:
    """Three more migrations at once leave orders, stock and everything else as they were."""
    await world.place()
    effects = await world.effects()
    await asyncio.gather(*(migrate(world.settings.database_url) for _ in range(3)))
    assert await world.effects() == effects


async def test_the_tables_refuse_what_must_not_be(world: World) -> None:
    """Negative stock, negative money and a captured payment without a capture are impossible rows."""
    await world.place()
    for statement, rule in (
        ("UPDATE shop.stock SET available = -1", "stock_available_check"),
        ("UPDATE shop.orders SET total = -1", "orders_total_check"),
        ("UPDATE shop.payments SET status = 'captured'", "payments_check"),
        ("UPDATE shop.payments SET amount = -1", "payments_amount_check"),
        ("INSERT INTO shop.loyalty_accounts VALUES (gen_random_uuid(), -1)", "loyalty_accounts_points_check"),
    ):
        with pytest.raises(Exception, match=rule):
            async with world.engine.begin() as connection:
                await connection.execute(text(statement))
