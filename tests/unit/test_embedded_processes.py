import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from homing.embedded.folder import PORTS, ServerFolder, write_private
from homing.embedded.processes import exclusive_lock, is_locked, program_of, wait_until
from homing.errors import ConfigurationError, ServerUnavailable


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_wait_says_what_it_waited_for() -> None:
    """A wait is bounded, and its error names what did not happen."""
    with pytest.raises(ServerUnavailable, match=r"Waited 0\.02 s for the moon"):
        wait_until(lambda: False, timeout_seconds=0.02, waiting_for="the moon")


def test_lock_is_seen_while_held_and_not_after(tmp_path: Path) -> None:
    """The lock speaks for its holder only as long as that lives."""
    path = tmp_path / "lock"
    assert not is_locked(path)
    with exclusive_lock(path, timeout_seconds=1, waiting_for="nobody"):
        assert is_locked(path)
        with (
            pytest.raises(ServerUnavailable, match="the first holder"),
            exclusive_lock(path, timeout_seconds=0.02, waiting_for="the first holder"),
        ):
            pass
    assert not is_locked(path)


def test_child_keeps_the_lock_that_it_inherits(tmp_path: Path) -> None:
    """A lock passed to a child lasts exactly as long as the child, even if nobody collects its exit status."""
    path = tmp_path / "lock"
    with exclusive_lock(path, timeout_seconds=1, waiting_for="nobody") as descriptor:
        child = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", "input()"], stdin=subprocess.PIPE, pass_fds=(descriptor,)
        )
    assert is_locked(path)
    child.kill()
    wait_until(lambda: not is_locked(path), timeout_seconds=10, waiting_for="the end of the child")
    child.communicate()


def test_zombie_is_no_running_program() -> None:
    """A dead process that nobody collected yet counts as gone, although its number still exists."""
    child = subprocess.Popen([sys.executable, "-I", "-S", "-c", "input()"], stdin=subprocess.PIPE)
    assert str(program_of(child.pid)).startswith("python")
    child.kill()
    wait_until(lambda: program_of(child.pid) is None, timeout_seconds=10, waiting_for="the zombie")
    os.kill(child.pid, 0)
    child.communicate()
    assert program_of(child.pid) is None


def test_private_files_are_closed_to_others(tmp_path: Path) -> None:
    """A secret is readable for its owner only, also when it replaces an open file."""
    path = tmp_path / "password"
    path.write_text("old")
    path.chmod(0o644)
    write_private(path, "secret")
    assert (path.read_text(), mode_of(path)) == ("secret", 0o600)


def test_created_folders_are_private_and_found_ones_untouched(tmp_path: Path) -> None:
    """Only folders that were missing get our mode."""
    tmp_path.chmod(0o755)
    ServerFolder(tmp_path / "a" / "b").create()
    assert [mode_of(tmp_path), mode_of(tmp_path / "a"), mode_of(tmp_path / "a" / "b")] == [0o755, 0o700, 0o700]


def test_home_that_is_a_file_is_refused(tmp_path: Path) -> None:
    """A home that cannot be a folder is named in the error."""
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match=rf"{tmp_path}/file/home cannot be the home of a server"):
        ServerFolder(tmp_path / "file" / "home").create()


def test_port_is_kept_until_somebody_takes_it(tmp_path: Path) -> None:
    """The port of the first start comes back, unless it is taken; it is never one that clients get by chance."""
    folder = ServerFolder(tmp_path)
    port = folder.claim_port()
    assert port in PORTS
    assert folder.claim_port() == port
    with socket.socket() as squatter:
        squatter.bind(("127.0.0.1", port))
        squatter.listen()
        assert folder.claim_port() != port
    assert folder.port != port


def test_nothing_started_yet_says_so(tmp_path: Path) -> None:
    """Port and password of a home that was never used are an error with the remedy."""
    with pytest.raises(ServerUnavailable, match=r"call start\(\) first"):
        _ = ServerFolder(tmp_path).port
    with pytest.raises(ServerUnavailable, match=r"call start\(\) first"):
        _ = ServerFolder(tmp_path).password
