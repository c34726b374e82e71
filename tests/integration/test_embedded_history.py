"""Servers whose past is changed: what a crash, a lost disk or an old copy leaves behind."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
import redis

from homing.embedded import EmbeddedPostgres, EmbeddedValkey, fast_test_settings
from homing.embedded.history import append_only_file
from homing.errors import ConfigurationError, ServerUnavailable
from tests.waiting import wait_until

TWO_WRITES = "redis.call('RPUSH', 'pair', ARGV[1]) redis.call('RPUSH', 'pair', ARGV[1])"


@pytest.fixture
def valkey(tmp_path: Path) -> Iterator[EmbeddedValkey]:
    with EmbeddedValkey(tmp_path / "valkey") as running:
        yield running


def client(server: EmbeddedValkey) -> redis.Redis:
    return redis.Redis.from_url(server.url(), decode_responses=True)


def pairs(server: EmbeddedValkey) -> object:
    with closing(client(server)) as connection:
        return connection.lrange("pair", 0, -1)


def log_of(server: EmbeddedValkey, connection: redis.Redis) -> int:
    """The length of the log once all that was answered is in it: while its disk is busy, a server answers first and writes later."""
    wait_until(lambda: connection.info("persistence")["aof_buffer_length"] == 0, what="the log is written")
    return server.log_bytes


def test_a_valkey_can_be_rewound_to_any_noted_moment(valkey: EmbeddedValkey) -> None:
    """What was answered before the moment is there after it, what came later is not, and a flush can be undone."""
    moments = []
    with closing(client(valkey)) as connection:
        for number in range(3):
            connection.eval(TWO_WRITES, 0, str(number))
            moments.append(log_of(valkey, connection))
        connection.flushall()
    for kept in (3, 2, 1):
        valkey.kill()
        valkey.rewind(moments[kept - 1])
        valkey.start()
        assert pairs(valkey) == [str(number) for number in range(kept) for _ in range(2)]


def test_a_script_that_is_cut_in_the_middle_is_lost_as_a_whole(valkey: EmbeddedValkey) -> None:
    """The log may be cut at any byte: a start keeps whole scripts."""
    with closing(client(valkey)) as connection:
        connection.eval(TWO_WRITES, 0, "first")
        kept = log_of(valkey, connection)
        connection.eval(TWO_WRITES, 0, "second")
        cut_at = kept + (log_of(valkey, connection) - kept) * 3 // 4  # after the first write of the second script
    valkey.kill()
    valkey.rewind(cut_at)
    valkey.start()
    assert pairs(valkey) == ["first", "first"]


def test_a_running_server_keeps_its_files(valkey: EmbeddedValkey, tmp_path: Path) -> None:
    """Cutting, copying or replacing the files of a running server is refused, and so is a cut beyond the end."""
    with pytest.raises(ServerUnavailable, match="stop it before its log can be cut"):
        valkey.rewind(0)
    with pytest.raises(ServerUnavailable, match="stop it before its data can be copied"):
        valkey.save_data(tmp_path / "copy")
    with pytest.raises(ServerUnavailable, match="stop it before its data can be replaced"):
        valkey.restore_data(tmp_path / "copy")
    valkey.stop()
    with pytest.raises(ConfigurationError, match="cannot be cut to"):
        valkey.rewind(valkey.log_bytes + 1)


def test_one_append_only_file_as_before_version_seven(tmp_path: Path) -> None:
    """Without a manifest there is one file, beside the data."""
    assert append_only_file(tmp_path) == tmp_path / "appendonly.aof"


def test_a_postgres_forgets_what_came_after_its_copy(tmp_path: Path) -> None:
    """A base copy that is restored brings back the old rows; a restart by either way keeps the address and the rows."""

    def rows() -> list[int]:
        with psycopg.connect(server.url()) as connection:
            return [row[0] for row in connection.execute("SELECT number FROM numbers ORDER BY number")]

    with EmbeddedPostgres(tmp_path / "postgres", settings=fast_test_settings) as server:
        with psycopg.connect(server.url(), autocommit=True) as connection:
            connection.execute("CREATE TABLE numbers AS SELECT 1 AS number")
        server.stop()
        server.save_data(tmp_path / "copy")
        server.start()
        with psycopg.connect(server.url(), autocommit=True) as connection:
            connection.execute("INSERT INTO numbers VALUES (2)")
        pid = server.pid
        assert server.restart(immediate=True).pid != pid
        assert rows() == [1, 2]
        server.restart()
        assert rows() == [1, 2]
        server.stop(immediate=True)
        server.restore_data(tmp_path / "copy")
        server.start()
        assert rows() == [1]
