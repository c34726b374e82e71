"""The files that `homing dev` starts the worker again for: found by looking, since every system has another way to be told."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.machinery import PathFinder
from pathlib import Path

Stamp = tuple[int, int, int]
"""What differs once a file was written or replaced: its time in nanoseconds, its size, its inode."""

WATCHED = (".py", ".toml")
"""Code and settings."""

SKIPPED = frozenset({"__pycache__", "node_modules"})
VIRTUAL_ENVIRONMENT = "pyvenv.cfg"
"""Stands in the folder of every virtual environment, whatever its name."""


class Sources:
    """Every watched file below some folders, and what changed in them since it was last told."""

    def __init__(self, roots: Sequence[Path]) -> None:
        self._roots = roots
        self._told = self._last = scan(roots)

    def changed(self) -> list[str]:
        """The files that are new, gone or different, each told once; none while somebody still writes, which is until two looks agree."""
        seen = scan(self._roots)
        at_rest, self._last = seen == self._last, seen
        if not at_rest:
            return []
        told, self._told = self._told, seen
        return sorted(path for path in told.keys() | seen.keys() if told.get(path) != seen.get(path))


def scan(roots: Sequence[Path]) -> Mapping[str, Stamp]:
    """The stamps of all watched files below `roots`; a root that is a file stands for itself. Links to folders are not followed."""
    return {path: stamp for root in roots for path, stamp in _below(root)}


def roots_of(module: str) -> list[Path]:
    """Where the code of an app may be: the working directory, and the app's package or module where that is elsewhere."""
    here = Path.cwd()
    spec = PathFinder.find_spec(module.partition(".")[0])  # reads no code
    if spec is None:
        return [here]
    places = list(spec.submodule_search_locations or ()) or [spec.origin or ""]
    return [here, *(Path(place) for place in places if place and not Path(place).resolve().is_relative_to(here))]


def _below(root: Path) -> Iterator[tuple[str, Stamp]]:
    if root.is_dir():
        yield from _in_folder(root)
    elif root.is_file():
        yield str(root), _stamp(root.stat())


def _in_folder(folder: str | Path) -> Iterator[tuple[str, Stamp]]:
    with suppress(OSError):  # gone since it was listed, or not ours to read: the next look tells
        entries = list(os.scandir(folder))
        if any(entry.name == VIRTUAL_ENVIRONMENT for entry in entries):
            return
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                if not (entry.name.startswith(".") or entry.name in SKIPPED):
                    yield from _in_folder(entry.path)
            elif entry.name.endswith(WATCHED):
                yield from _of_file(entry)


def _of_file(entry: "os.DirEntry[str]") -> Iterator[tuple[str, Stamp]]:
    with suppress(FileNotFoundError):  # replaced at this moment, or a link to nothing
        yield entry.path, _stamp(entry.stat())


def _stamp(status: os.stat_result) -> Stamp:
    return status.st_mtime_ns, status.st_size, status.st_ino
