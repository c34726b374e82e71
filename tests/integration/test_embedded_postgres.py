import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest

from homing.embedded import EmbeddedPostgres, fast_test_settings, folder
from homing.errors import ConfigurationError, ServerUnavailable


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture(scope="module")
def closed_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("closed")
    folder.chmod(0o700)
    return folder


@pytest.fixture(scope="module")
def server(closed_folder: Path) -> Iterator[EmbeddedPostgres]:
    """One server for all tests here, in a closed folder whose name is too long for a unix socket."""
    with EmbeddedPostgres(closed_folder / ("long" * 30), settings=fast_test_settings) as running:
        yield running


async def ask(server: EmbeddedPostgres, sql: str, database: str | None = None) -> object:
    connection = await asyncpg.connect(server.url(database))
    try:
        return await connection.fetchval(sql)
    finally:
        await connection.close()


async def test_url_leads_to_the_database(server: EmbeddedPostgres) -> None:
    """The URL logs in as the named user to the named database."""
    assert await ask(server, "SELECT current_user || '@' || current_database()") == "homing@homing"
    assert await ask(server, "SELECT current_database()", "postgres") == "postgres"


async def test_wrong_password_is_refused(server: EmbeddedPostgres) -> None:
    """A neighbour on this machine needs the password."""
    with pytest.raises(asyncpg.InvalidPasswordError):
        await asyncpg.connect(f"postgresql://homing:wrong@127.0.0.1:{server.port}/homing")


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("server_encoding", "UTF8"),
        ("data_checksums", "on"),
        ("max_connections", "100"),
        ("shared_buffers", "64MB"),
        ("listen_addresses", "127.0.0.1"),
        ("unix_socket_directories", ""),
        ("fsync", "off"),
    ],
)
async def test_server_is_configured(server: EmbeddedPostgres, setting: str, value: str) -> None:
    """The server runs with our defaults and with the settings that were given."""
    assert await ask(server, f"SELECT current_setting('{setting}')") == value


def test_files_are_private_and_parents_untouched(server: EmbeddedPostgres, closed_folder: Path) -> None:
    """A server in a closed folder works, keeps it closed, and hides its password and data."""
    assert server.pid
    assert mode_of(closed_folder) == 0o700
    assert closed_folder.stat().st_uid == os.geteuid()
    assert mode_of(server.home) == 0o700
    assert mode_of(server.home / "password") == 0o600
    assert mode_of(server.home / "data") == 0o700


def test_server_has_a_session_of_its_own(server: EmbeddedPostgres) -> None:
    """Ctrl-C in our terminal does not reach the server."""
    assert os.getsid(server.pid) == server.pid != os.getsid(0)


def test_second_start_attaches(server: EmbeddedPostgres) -> None:
    """Starting what runs returns the same server, for this object and for another one."""
    other = EmbeddedPostgres(server.home).start()
    assert (other.attached, other.pid, other.url()) == (True, server.pid, server.url())
    assert server.start().attached is False


async def test_attaching_creates_another_database(server: EmbeddedPostgres) -> None:
    """The database that an object names exists after its start, whatever its name has in it."""
    other = EmbeddedPostgres(server.home, database='it\'s "x"/?').start()
    assert await ask(other, "SELECT current_database()") == 'it\'s "x"/?'


async def test_sigkill_of_the_server_loses_nothing(server: EmbeddedPostgres) -> None:
    """After kill -9 the same URL works again and committed rows are there."""
    url = server.url()
    await ask(server, "CREATE TABLE survivor AS SELECT 42 AS answer")
    server.kill()
    with pytest.raises(ServerUnavailable, match="No PostgreSQL runs"):
        _ = server.pid
    server.start()
    assert (server.attached, server.url()) == (False, url)
    assert await ask(server, "SELECT answer FROM survivor") == 42


@pytest.mark.parametrize("immediate", [False, True])
async def test_restart_keeps_the_url(server: EmbeddedPostgres, *, immediate: bool) -> None:
    """Stopping is complete, may be repeated, and the next start has the same port."""
    url = server.url()
    server.stop(immediate=immediate)
    server.stop()
    assert not server._folder.is_in_use()
    assert await ask(server.start(), "SELECT 1") == 1
    assert server.url() == url


def test_stranger_on_our_port_makes_us_move(server: EmbeddedPostgres, monkeypatch: pytest.MonkeyPatch) -> None:
    """A port that somebody took while we were down is given up."""
    monkeypatch.setattr(folder, "PORT_RELEASE_SECONDS", 0.1)
    server.stop()
    with socket.socket() as squatter:
        squatter.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        squatter.bind(("127.0.0.1", server.port))
        squatter.listen()
        assert server.start().port != squatter.getsockname()[1]


def test_any_process_may_stop_it(server: EmbeddedPostgres) -> None:
    """A fresh object stops the server that lives in the folder."""
    EmbeddedPostgres(server.home).stop()
    assert not server._folder.is_in_use()
    server.start()


async def test_settings_apply_at_the_next_start(server: EmbeddedPostgres) -> None:
    """An attached object changes nothing; once the server starts anew its settings count."""
    changed = EmbeddedPostgres(server.home, settings={**fast_test_settings, "max_connections": "33"}).start()
    assert await ask(changed, "SHOW max_connections") == "100"
    changed.stop()
    assert await ask(changed.start(), "SHOW max_connections") == "33"
    changed.stop()
    server.start()


def test_wrong_setting_shows_the_servers_words(server: EmbeddedPostgres) -> None:
    """A setting that PostgreSQL does not know fails with its own explanation, and harms nothing."""
    server.stop()
    with pytest.raises(ServerUnavailable, match=r'unrecognized configuration parameter "no_such_thing"'):
        EmbeddedPostgres(server.home, settings={"no_such_thing": "1"}).start()
    assert server.start().pid


def test_data_without_its_password_is_refused(server: EmbeddedPostgres) -> None:
    """Nobody can log in when the password file is lost: the error names it."""
    password = server.home / "password"
    kept = password.read_text()
    server.stop()
    password.unlink()
    with pytest.raises(ConfigurationError, match=r"/password is missing"):
        server.start()
    password.write_text(kept)
    assert server.start().pid


def test_foreign_major_is_refused(tmp_path: Path) -> None:
    """Data of another PostgreSQL is not touched, and the error names both versions and the ways out."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "PG_VERSION").write_text("11\n")
    with pytest.raises(ConfigurationError, match=r"made by PostgreSQL 11, but .* holds PostgreSQL \d+.*another home"):
        EmbeddedPostgres(tmp_path).start()


def test_our_own_settings_are_refused(tmp_path: Path) -> None:
    """Settings that would lead the server away from its URL are an error at once."""
    with pytest.raises(ConfigurationError, match="listen_addresses, port belong"):
        EmbeddedPostgres(tmp_path, settings={"port": "1", "listen_addresses": "*"})


def test_stopping_what_never_ran_creates_nothing(tmp_path: Path) -> None:
    """Stop on an unused home is silent and leaves no trace."""
    EmbeddedPostgres(tmp_path / "never").stop()
    assert not (tmp_path / "never").exists()
