"""`homing …` as people and programs run it, in the test's own process."""

import io
import json
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from homing.cli.main import main
from homing.config.settings import Settings


@dataclass(frozen=True, slots=True)
class Said:
    """How a command ended, and what it said."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """What it said to a program."""
        assert (self.code, self.err) == (0, "")
        return json.loads(self.out)


class Commands:
    """Runs commands on the servers of the settings. No app is needed: the prefix of keys is set."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch = monkeypatch
        self._capsys = capsys

    def __call__(self, *arguments: str, given: str = "") -> Said:
        """One command, with this text on standard input, which is no terminal."""
        self._monkeypatch.setattr(sys, "stdin", io.StringIO(given))
        self._capsys.readouterr()
        code = main(arguments)
        printed = self._capsys.readouterr()
        return Said(code, printed.out, printed.err)


@contextmanager
def commands_on(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Commands]:
    """Commands on these servers; logging is as it was afterwards."""
    monkeypatch.setenv("DATABASE_URL", settings.asyncpg_dsn)
    monkeypatch.setenv("REDIS_URL", str(settings.redis_url))
    monkeypatch.setenv("HOMING_PREFIX", str(settings.prefix))
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield Commands(monkeypatch, capsys)
    root.handlers[:] = handlers
    root.setLevel(level)
