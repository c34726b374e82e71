"""The files of a stopped server: its data as it was at an earlier moment, and a log that lost its end."""

import os
import shutil
from pathlib import Path

from homing.embedded.identity import Account
from homing.errors import ConfigurationError


def copy_data(source: Path, target: Path, account: Account) -> None:
    """Make `target` a copy of the folder `source`, whatever it held before, for the account that the server runs as."""
    if target.exists():
        shutil.rmtree(target)
    shutil.copytree(source, target, symlinks=True)
    account.take_over(target)
    for path in target.rglob("*"):
        account.take_over(path)


def append_only_file(data: Path) -> Path:
    """The file that the last writes of a Valkey or Redis went to: named by a manifest since version 7, one file before."""
    manifest = data / "appendonlydir" / "appendonly.aof.manifest"
    if not manifest.exists():
        return data / "appendonly.aof"
    entries = [line.split() for line in manifest.read_text().splitlines()]
    increments = [
        fields[1] for fields in entries if fields[0] == "file" and fields[-1] == "i"
    ]  # file NAME seq N type i
    return manifest.with_name(increments[-1])


def cut(path: Path, size: int) -> None:
    """Keep the first `size` bytes of a file."""
    if not 0 <= size <= path.stat().st_size:
        raise ConfigurationError(f"{path} has {path.stat().st_size} bytes and cannot be cut to {size}")
    os.truncate(path, size)
