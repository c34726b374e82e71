import os
import socket
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from homing.embedded import EmbeddedValkey, folder
from homing.errors import ConfigurationError, ServerUnavailable


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedValkey]:
    with EmbeddedValkey(tmp_path_factory.mktemp("closed") / ("long" * 30)) as running:
        yield running


def client(server: EmbeddedValkey, db: int = 0) -> redis.Redis:
    return redis.Redis.from_url(server.url(db), decode_responses=True)


def test_url_leads_to_the_server(server: EmbeddedValkey) -> None:
    """The URL logs in and selects the named database."""
    with closing(client(server, 3)) as connection:
        assert connection.ping()
        assert connection.client_info()["db"] == 3


def test_without_password_nothing_is_allowed(server: EmbeddedValkey) -> None:
    """A neighbour on this machine needs the password."""
    with (
        closing(redis.Redis(host="127.0.0.1", port=server.port, retry=Retry(NoBackoff(), 0))) as stranger,
        pytest.raises(redis.AuthenticationError),
    ):
        stranger.ping()


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("appendonly", "yes"),
        ("appendfsync", "everysec"),
        ("save", ""),
        ("maxmemory-policy", "noeviction"),
        ("bind", "127.0.0.1"),
        ("unixsocket", ""),
    ],
)
def test_server_is_configured_for_work_that_must_not_be_lost(server: EmbeddedValkey, setting: str, value: str) -> None:
    """The server appends, never evicts, and listens on loopback only."""
    with closing(client(server)) as connection:
        assert connection.config_get(setting) == {setting: value}


def test_files_are_private(server: EmbeddedValkey) -> None:
    """Folder, password and configuration are closed to other users."""
    modes = {name: stat.S_IMODE((server.home / name).stat().st_mode) for name in (".", "password", "valkey.conf")}
    assert modes == {".": 0o700, "password": 0o600, "valkey.conf": 0o600}


def test_server_has_a_session_of_its_own(server: EmbeddedValkey) -> None:
    """Ctrl-C in our terminal does not reach the server."""
    assert os.getsid(server.pid) == server.pid != os.getsid(0)


def test_second_start_attaches(server: EmbeddedValkey) -> None:
    """Starting what runs returns the same server, for this object and for another one."""
    other = EmbeddedValkey(server.home).start()
    assert (other.attached, other.pid, other.url()) == (True, server.pid, server.url())
    assert server.start().attached is False


def test_sigkill_of_the_server_loses_nothing(server: EmbeddedValkey) -> None:
    """After kill -9 the same URL works again and answered writes are there."""
    url = server.url()
    with closing(client(server)) as connection:
        connection.set("survivor", "42")
    server.kill()
    with pytest.raises(ServerUnavailable, match="No Valkey runs"):
        _ = server.pid
    server.start()
    assert (server.attached, server.url()) == (False, url)
    with closing(client(server)) as connection:
        assert connection.get("survivor") == "42"


@pytest.mark.parametrize("immediate", [False, True])
def test_restart_keeps_the_url(server: EmbeddedValkey, *, immediate: bool) -> None:
    """Stopping is complete, may be repeated, and the next start has the same port."""
    url = server.url()
    server.stop(immediate=immediate)
    server.stop()
    assert not server._folder.is_in_use()
    assert server.start().url() == url


def test_stranger_on_our_port_makes_us_move(server: EmbeddedValkey, monkeypatch: pytest.MonkeyPatch) -> None:
    """A port that somebody took while we were down is given up."""
    monkeypatch.setattr(folder, "PORT_RELEASE_SECONDS", 0.1)
    server.stop()
    with socket.socket() as squatter:
        squatter.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        squatter.bind(("127.0.0.1", server.port))
        squatter.listen()
        assert server.start().port != squatter.getsockname()[1]


def test_a_port_that_is_let_go_late_stays_ours(server: EmbeddedValkey, monkeypatch: pytest.MonkeyPatch) -> None:
    """An ended server's sockets may close after its lock: the next start waits for the port instead of moving away."""
    server.stop()
    port, squatter, is_free = server.port, socket.socket(), folder._is_free
    squatter.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    squatter.bind(("127.0.0.1", port))
    squatter.listen()

    def looked(port: int) -> bool:
        free = is_free(port)
        squatter.close()  # seen once: now it goes
        return free

    monkeypatch.setattr(folder, "_is_free", looked)
    assert server.start().port == port


def test_settings_are_quoted_and_apply_at_the_next_start(server: EmbeddedValkey) -> None:
    """A given setting overrides the default, blanks and quotes included."""
    server.stop()
    with (
        EmbeddedValkey(
            server.home, settings={"appendfsync": "always", "proc-title-template": 'a "b" {title}'}
        ) as other,
        closing(client(other)) as connection,
    ):
        assert connection.config_get("appendfsync") == {"appendfsync": "always"}
        assert connection.config_get("proc-title-template") == {"proc-title-template": 'a "b" {title}'}
    server.start()


def test_wrong_setting_shows_the_servers_words(server: EmbeddedValkey) -> None:
    """A setting that Valkey does not know fails with its own explanation, and harms nothing."""
    server.stop()
    with pytest.raises(ServerUnavailable, match=r"(?s)no-such-thing.*Bad directive"):
        EmbeddedValkey(server.home, settings={"no-such-thing": "1"}).start()
    assert server.start().pid


@pytest.mark.parametrize("made_by", ["valkey 99", "redis 7"])
def test_foreign_engine_is_refused(tmp_path: Path, made_by: str) -> None:
    """Data of a newer or another engine is not touched, and the error says who made it."""
    (tmp_path / "engine").write_text(made_by)
    with pytest.raises(ConfigurationError, match=rf"made by {made_by}, but .*another home"):
        EmbeddedValkey(tmp_path).start()


def test_our_own_settings_are_refused(tmp_path: Path) -> None:
    """Settings that would lead the server away from its URL are an error at once."""
    with pytest.raises(ConfigurationError, match="port, requirepass belong"):
        EmbeddedValkey(tmp_path, settings={"port": "1", "requirepass": ""})
