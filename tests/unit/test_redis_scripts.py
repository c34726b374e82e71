"""The official scripts: found, verified, and given a fresh token for the next job."""

import hashlib
import importlib.util
import subprocess
import sys
from dataclasses import fields

import pytest

from homing.errors import ConfigurationError, MissingExtraError
from homing.queue.redis import manifest, scripts


@pytest.fixture(autouse=True)
def _read_anew() -> None:
    """Forget what earlier tests have read."""
    scripts.load_scripts.cache_clear()


def test_every_script_is_read_with_its_number_of_keys() -> None:
    """All scripts of the installed wheel are the known ones, and the file name gives the number of KEYS."""
    loaded = scripts.load_scripts()
    assert loaded.move_to_active.name == "moveToActive-11"
    assert loaded.move_to_active.key_count == 11
    assert loaded.retry.name.startswith("retryJob")
    digest = hashlib.sha1(loaded.retry.text.encode(), usedforsecurity=False).hexdigest()
    assert loaded.retry.sha == digest
    assert loaded.library_version in scripts.known_scripts()


SAME_TICK = 'if ARGV[10] and ARGV[10] ~= (prevMillis or "") then return -100 end'
FRESH_TOKEN = "opts['token'] = opts['nextToken'] or token"
MARK = (
    'addBaseMarkerIfNeeded(markerKey, rcall("EXISTS", keyPrefix .. "wait", keyPrefix .. "prioritized", '
    'keyPrefix .. "delayed") == 0)'
)


def test_three_scripts_differ_by_a_line_or_two() -> None:
    """What is sent is the official text: two scripts set the marker only when something is left, one of them takes a fresh token.

    The one that sets a schedule does so only if its tick is the one that the caller saw.
    """
    loaded = scripts.load_scripts()
    for name, script in zip(scripts.NAMES, loaded_scripts(loaded), strict=True):
        official = scripts.read_script(name).decode().splitlines()
        sent = script.text.splitlines()
        added = [line.strip() for line in sent if line not in official]
        taken = [line.strip() for line in official if line not in sent]
        finishes, claims = name.startswith("moveToFinished"), name.startswith("moveToActive")
        schedules = name.startswith("addJobScheduler")
        assert added == [MARK] * (finishes or claims) + [FRESH_TOKEN] * finishes + [SAME_TICK] * schedules
        assert taken == ["addBaseMarkerIfNeeded(markerKey, false)"] * (finishes or claims)
        assert len(sent) == len(official) + finishes + schedules


def loaded_scripts(loaded: scripts.ScriptSet) -> list[scripts.Script]:
    """The scripts in the order of their names' list."""
    found = [getattr(loaded, field.name) for field in fields(loaded)]
    return [script for script in found if isinstance(script, scripts.Script)]


def test_a_changed_script_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is not the known one stops the start and is named."""
    read = scripts.read_script
    monkeypatch.setattr(scripts, "read_script", lambda name: read(name) + b" " * name.startswith("retryJob"))
    with pytest.raises(ConfigurationError, match=r"retryJob-11 of bullmq .* is not the one"):
        scripts.load_scripts()


def test_an_unknown_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says what is installed and what is known."""
    known = ", ".join(scripts.known_scripts())
    monkeypatch.setattr(scripts, "installed_version", lambda: "9.9.9")
    with pytest.raises(ConfigurationError, match=rf"bullmq 9\.9\.9 is installed.*{known}"):
        scripts.load_scripts()


def test_a_missing_wheel_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the wheel the error holds the pip line."""
    monkeypatch.setattr(scripts, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"homing\[redis\]"):
        scripts.load_scripts()


def test_a_finish_script_without_its_fetch_is_refused() -> None:
    """A future script that cannot be given a fresh token is not used as it is."""
    with pytest.raises(ConfigurationError, match=r"moveToFinished-14 has changed: it has .*ARGV\[6\]"):
        scripts.as_script("moveToFinished-14", "return 0")


def test_the_manifest_in_the_tree_is_fresh() -> None:
    """What the manifest command prints is what is committed."""
    assert manifest.fresh_manifest() == scripts.known_scripts()


def test_the_wheel_is_never_imported() -> None:
    """Reading the scripts runs none of the wheel's Python."""
    assert importlib.util.find_spec("bullmq") is not None
    code = "import sys; from homing.queue.redis.scripts import load_scripts; load_scripts(); sys.exit('bullmq' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
