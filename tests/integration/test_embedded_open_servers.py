from pathlib import Path

import pytest

from homing.embedded import binaries, fast_test_settings, open_servers
from homing.errors import ConfigurationError, ServerUnavailable


def test_given_urls_win(tmp_path: Path) -> None:
    """With both URLs nothing is looked for, started or created."""
    home = tmp_path / "home"
    servers = open_servers(home, database_url="postgresql://db/x", redis_url="redis://cache/1")
    assert (servers.database_url, servers.redis_url) == ("postgresql://db/x", "redis://cache/1")
    assert (servers.postgres, servers.valkey) == (None, None)
    servers.stop()
    assert not home.exists()


def test_only_the_missing_server_is_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One URL given: the other server starts, by default in `.homing` of the current directory, hidden from git."""
    monkeypatch.chdir(tmp_path)
    servers = open_servers(database_url="postgresql://db/x", redis_url="")
    try:
        assert servers.postgres is None
        assert servers.valkey is not None
        assert servers.redis_url == servers.valkey.url()
        assert servers.valkey.home.parent == tmp_path / ".homing"
        assert (tmp_path / ".homing" / ".gitignore").read_text() == "*\n"
    finally:
        servers.stop()
    with pytest.raises(ServerUnavailable):
        _ = servers.valkey.pid


def test_both_servers_start_and_stop_together(tmp_path: Path) -> None:
    """Without URLs both start in folders named after engine and major version; a second call attaches to both."""
    servers = open_servers(tmp_path, database_url=None, redis_url=None, postgres_settings=fast_test_settings)
    try:
        assert servers.postgres is not None
        assert servers.valkey is not None
        postgres, valkey = binaries.find_postgres(), binaries.find_valkey()
        assert servers.postgres.home == tmp_path / f"postgres{postgres.major}"
        assert servers.valkey.home == tmp_path / f"{valkey.engine}{valkey.major}"
        again = open_servers(tmp_path, database_url=None, redis_url=None)
        assert again.postgres is not None
        assert again.valkey is not None
        assert (again.postgres.attached, again.valkey.attached) == (True, True)
        assert (again.database_url, again.redis_url) == (servers.database_url, servers.redis_url)
    finally:
        servers.stop()
    assert not servers.postgres._folder.is_in_use()
    assert not servers.valkey._folder.is_in_use()


def test_failure_of_one_stops_the_other(tmp_path: Path) -> None:
    """When Valkey cannot start, the PostgreSQL that was started for the same call does not stay behind."""
    binary = binaries.find_valkey()
    home = tmp_path / f"{binary.engine}{binary.major}"
    home.mkdir()
    (home / "engine").write_text("valkey 99")
    with pytest.raises(ConfigurationError, match="made by valkey 99"):
        open_servers(tmp_path, database_url=None, redis_url=None, postgres_settings=fast_test_settings)
    assert not (tmp_path / f"postgres{binaries.find_postgres().major}" / "data" / "postmaster.pid").exists()


def test_missing_programs_leave_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without Valkey fails before anything is started or created."""
    monkeypatch.setenv(binaries.VALKEY_OVERRIDE, str(tmp_path / "nothing"))
    with pytest.raises(ConfigurationError, match=binaries.VALKEY_OVERRIDE):
        open_servers(tmp_path / "home", database_url=None, redis_url=None)
    assert not (tmp_path / "home").exists()
