"""`homing dev` without any process: what counts as a change of the code, and where it does not start."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from homing.cli import dev as cli_dev
from homing.cli.main import main
from homing.processes.dev import may_pass, name_files
from homing.processes.dev_sources import Sources, roots_of, scan


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    """A verb sets up logging for its process, which this one is not."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def write(path: Path, text: str) -> Path:
    """A file, and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_change_is_told_once_and_only_when_the_writing_has_ended(tmp_path: Path) -> None:
    """New, different and gone files are told together after a look that found the same as the one before."""
    changed, gone = write(tmp_path / "jobs.py", "1"), write(tmp_path / "gone.py", "1")
    sources = Sources([tmp_path])
    assert sources.changed() == []
    write(changed, "12")
    assert sources.changed() == []
    gone.unlink()
    fresh = write(tmp_path / "shop" / "homing.toml", "")
    assert sources.changed() == []
    assert sources.changed() == sorted(map(str, [changed, gone, fresh]))
    assert sources.changed() == []


def test_what_is_not_the_apps_code_is_not_looked_at(tmp_path: Path) -> None:
    """Virtual environments of any name, hidden folders, caches and other files never start a worker again."""
    for name in ("env/pyvenv.cfg", "env/lib/a.py", ".git/a.py", "__pycache__/a.py", "node_modules/a.py", "notes.txt"):
        write(tmp_path / name, "")
    (tmp_path / "away.py").symlink_to(tmp_path / "nowhere.py")
    (tmp_path / "again").symlink_to(tmp_path)
    ours = write(tmp_path / "shop" / "jobs.py", "")
    assert list(scan([tmp_path])) == [str(ours)]


def test_package_outside_of_the_folder_is_watched_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An app that is installed from elsewhere, as a package or a module, is looked for where it is; nothing of it is imported."""
    here = tmp_path / "here"
    write(here / "inside.py", "raise SystemError")
    package = write(tmp_path / "src" / "faraway" / "__init__.py", "raise SystemError").parent
    module = write(tmp_path / "src" / "single_module.py", "raise SystemError")
    monkeypatch.chdir(here)
    monkeypatch.syspath_prepend(tmp_path / "src")
    monkeypatch.syspath_prepend(here)
    assert roots_of("faraway.jobs") == [here, package]
    assert roots_of("single_module") == [here, module]
    assert list(scan([module])) == [str(module)]
    assert roots_of("inside") == roots_of("no_such_module") == [here]


def test_many_files_are_named_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A change of branch does not fill the screen; files of this folder go by their short names."""
    monkeypatch.chdir(tmp_path)
    here = [str(tmp_path / name) for name in ("a.py", "b.py")]
    assert name_files([*here, "/z/c.py"]) == "a.py, b.py, /z/c.py"
    assert name_files([*here, "/z/c.py", "/z/d.py", "/z/e.py"]) == "a.py, b.py, /z/c.py and 2 more"


def test_only_what_may_pass_by_itself_is_tried_again() -> None:
    """A worker that was killed, got stuck or found no server starts again; wrong code waits for its author."""
    assert [code for code in (-9, 0, 1, 2, 3, 4, 70, 75, 76) if may_pass(code)] == [-9, 4, 75, 76]


def test_production_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where HOMING_ENV is production nothing starts, and no folder is made."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOMING_ENV", "production")
    monkeypatch.setattr(cli_dev, "open_servers", lambda **_: pytest.fail("a server was started"))
    assert main(["dev", "--app", "jobs:app"]) == 5
    printed = capsys.readouterr()
    assert "HOMING_ENV is 'production'" in printed.err
    assert printed.out == ""


def test_app_without_a_name_is_told_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No server starts for a command that names no app."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cli_dev, "open_servers", lambda **_: pytest.fail("a server was started"))
    assert main(["dev"]) == 3
    assert "give --app module:attribute" in capsys.readouterr().err
