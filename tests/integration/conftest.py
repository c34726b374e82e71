"""A Valkey of one module's own, for what must not happen to the shared one; commands on a test's own servers."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from homing.config.settings import Settings
from homing.embedded import EmbeddedValkey
from tests.integration.commands import Commands, commands_on
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


@pytest.fixture
def command(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Iterator[Commands]:
    """Runs `homing …` on this test's servers, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    with commands_on(settings, monkeypatch, capsys) as run:
        yield run
