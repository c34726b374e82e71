"""A Valkey of one module's own, for what must not happen to the shared one."""

from collections.abc import Iterator

import pytest

from homing.config.settings import Settings
from homing.embedded import EmbeddedValkey
from tests.own_servers import own_valkey, ready_valkey


@pytest.fixture(scope="module")
def _module_valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedValkey]:
    with own_valkey(tmp_path_factory.mktemp("own-valkey")) as server:
        yield server


@pytest.fixture
def disposable_valkey(_module_valkey: EmbeddedValkey) -> EmbeddedValkey:
    """A running, empty Valkey that the test may flush, fill and kill."""
    return ready_valkey(_module_valkey)


@pytest.fixture
def disposable_settings(database_url: str, disposable_valkey: EmbeddedValkey) -> Settings:
    """Settings for this test's database and a Valkey that it may harm."""
    return Settings(database_url=database_url, redis_url=disposable_valkey.url(), prefix="own")
