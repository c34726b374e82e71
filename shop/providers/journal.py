"""An append-only file of JSON lines, so that a killed provider comes back with its history."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self


class DamagedJournalError(Exception):
    """A line in the middle of a journal is not JSON: somebody else wrote to it."""


class Journal:
    """One line per answered call, handed to the operating system before the answer leaves.

    It survives a SIGKILL of the provider, not a power cut: nothing is synced to disk. A last line that was torn by the
    kill never had its answer sent; it is dropped. Without a path nothing is kept.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._file = None if path is None else path.open("ab", buffering=0)

    def lines(self) -> Iterator[str]:
        """Yield the complete lines of earlier lives, after cutting a torn one off the end."""
        if self._path is None:
            return
        data = self._path.read_bytes()
        complete = data.rfind(b"\n") + 1
        if complete < len(data):
            os.truncate(self._path, complete)
        for number, line in enumerate(data[:complete].decode().splitlines(), start=1):
            try:
                json.loads(line)
            except ValueError as error:
                raise DamagedJournalError(f"{self._path}, line {number} is not JSON: {line[:80]!r}") from error
            yield line

    def append(self, line: str) -> None:
        """Write one line with a single call, so that a kill leaves all of it or a torn tail, never a mix."""
        if self._file is not None:
            self._file.write(line.encode() + b"\n")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()
