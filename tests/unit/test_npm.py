"""What becomes of a machine without Node, without a registry, or with an npm that fails: said aloud, or an error."""

import os
import shutil
from pathlib import Path

import pytest

from tests.interop import npm

NODE = "#!/bin/sh\necho v22.1.0\n"
OLD_NODE = "#!/bin/sh\necho v18.20.0\n"


def npm_that(says: str, code: int) -> str:
    """An npm that says something and ends."""
    return f"#!/bin/sh\necho '{says}' >&2\nexit {code}\n"


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with nothing on its PATH, and nothing installed."""
    programs = tmp_path / "bin"
    programs.mkdir()
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}/bin")
    monkeypatch.setattr(npm, "HOME", tmp_path / "home")
    monkeypatch.setattr(npm, "PINNED", tmp_path / "home" / "pinned")
    monkeypatch.setattr(shutil, "which", lambda name: str(programs / name) if (programs / name).exists() else None)
    return programs


def put(folder: Path, **programs: str) -> None:
    """Put programs on the PATH."""
    for name, text in programs.items():
        (folder / name).write_text(text, encoding="utf-8")
        (folder / name).chmod(0o755)


@pytest.mark.parametrize(
    ("programs", "said"),
    [
        ({}, "not both on the PATH"),
        ({"node": NODE}, "not both on the PATH"),
        ({"node": OLD_NODE, "npm": npm_that("", 0)}, "node is v18.20.0, and 20 or newer is needed"),
        (
            {"node": NODE, "npm": npm_that("npm error code ENOTFOUND\nnpm error network no such host", 1)},
            "cannot reach",
        ),
    ],
    ids=["nothing", "no npm", "old node", "no registry"],
)
def test_what_is_missing_is_said_and_no_error(
    machine: Path, capsys: pytest.CaptureFixture[str], programs: dict[str, str], said: str
) -> None:
    """The command ends well and says it aloud; nothing counts as installed."""
    put(machine, **programs)
    assert npm.main([]) == 0
    shown = capsys.readouterr().err
    assert shown.startswith("!!! NODE IS LEFT OUT: ")
    assert said in shown
    with pytest.raises(npm.NodeIsMissingError):
        npm.installed()


def test_an_npm_that_fails_is_an_error(machine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A lock that does not fit, a full disk: the command fails with what npm said, and leaves nothing that counts."""
    put(machine, node=NODE, npm=npm_that("npm error code EINTEGRITY\nnpm error sha512 is wrong", 1))
    assert npm.main([]) == 1
    assert "EINTEGRITY" in capsys.readouterr().err
    with pytest.raises(npm.NodeIsMissingError, match="not installed"):
        npm.installed()


def test_what_is_installed_is_found_again(machine: Path) -> None:
    """Npm is asked once, for exactly what the lock says and without running install scripts."""
    log = machine.parent / "asked"
    put(machine, node=NODE, npm=f'#!/bin/sh\necho "$@" >> {log}\n')
    first, second = npm.install(), npm.install()
    assert first == second == npm.installed()
    (asked,) = log.read_text(encoding="utf-8").splitlines()
    assert asked.startswith("ci --ignore-scripts ")
    assert (first.folder / "package-lock.json").read_bytes() == (npm.WANTED / "package-lock.json").read_bytes()


def test_the_lock_names_no_registry() -> None:
    """The index is the machine's business: every package is named by its hash, none by an address."""
    lock = (npm.WANTED / "package-lock.json").read_text(encoding="utf-8")
    assert '"resolved"' not in lock
    assert lock.count('"integrity"') > 50


def test_the_lock_names_no_address() -> None:
    """Where packages come from is the machine's business; what they are is said by version and hash."""
    assert "://" not in (npm.WANTED / "package-lock.json").read_text(encoding="utf-8")
