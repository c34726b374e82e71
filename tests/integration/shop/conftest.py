"""A shop on a database of its own, with partners that are shared by the session and forget everything between tests."""

import os
from collections.abc import AsyncIterator, Iterator

import pytest

from shop.providers.process import ProviderProcess
from tests.integration.shop.world import Partners, World


@pytest.fixture(autouse=True)
def _no_shop_of_the_developer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the shop's variables of whoever runs the tests."""
    for name in [name for name in os.environ if name.startswith("SHOP_")]:
        monkeypatch.delenv(name)


@pytest.fixture(scope="session")
def _running_partners(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Partners]:
    logs = tmp_path_factory.mktemp("partners")
    with (
        ProviderProcess.start("gateway", logs) as gateway,
        ProviderProcess.start("carrier", logs, throttle=1000) as carrier,
        ProviderProcess.start("mailbox", logs) as mailbox,
    ):
        yield Partners(gateway=gateway, carrier=carrier, mailbox=mailbox)


@pytest.fixture
def partners(_running_partners: Partners) -> Partners:
    """Gateway, carrier and mailbox as if just started."""
    _running_partners.reset()
    return _running_partners


@pytest.fixture
async def world(database_url: str, partners: Partners) -> AsyncIterator[World]:
    """A shop with ten rice cookers on sale."""
    async with World.open(partners.settings(database_url), partners) as world:
        yield world


@pytest.fixture
async def hasty_world(database_url: str, partners: Partners) -> AsyncIterator[World]:
    """The same with little patience: half a second for a call, two for a checkout, which expires after as long."""
    settings = partners.settings(database_url, request_timeout=0.5, checkout_busy=1.5, checkout_expiry=1.5)
    async with World.open(settings, partners) as world:
        yield world
