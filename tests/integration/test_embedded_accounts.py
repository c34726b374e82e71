"""PostgreSQL under another user than root, and both servers under a normal user."""

import os
import pwd
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest

from homing.embedded import EmbeddedPostgres, fast_test_settings, identity
from homing.embedded.binaries import find_postgres, find_valkey
from homing.embedded.identity import closed_folder_above
from homing.errors import ConfigurationError

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0, reason="only root can become somebody else; the other tests ran as a user"
)

# Everything is imported as root, because another user may not reach the interpreter's folder.
AS_NOBODY = """
import encodings.idna, os, sys
import psutil
from pathlib import Path
from homing.embedded import EmbeddedPostgres, EmbeddedValkey, fast_test_settings
home, uid, gid = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
os.setgroups([]); os.setgid(gid); os.setuid(uid)
with EmbeddedPostgres(home / "pg", settings=fast_test_settings) as postgres, EmbeddedValkey(home / "vk") as valkey:
    postgres.kill()
    valkey.kill()
    postgres.start()
    valkey.start()
    for server in (postgres, valkey):
        assert psutil.Process(server.pid).uids().real == uid, server
print("fine")
"""


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user may pass; pytest's own are closed."""
    folder = Path(tempfile.mkdtemp(prefix="homing-test-"))
    folder.chmod(0o711)
    yield folder
    shutil.rmtree(folder)


def skip_unless_reachable(program: Path, uid: int, gid: int) -> None:
    if closed := closed_folder_above(program, uid, gid):
        pytest.skip(f"NOT TESTED: user id {uid} cannot pass {closed} to {program}")


@pytest.fixture
def without_namespaces(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine like a default container, which refuses user namespaces."""
    monkeypatch.setattr(identity, "namespace_prefix", lambda: None)


@pytest.mark.usefixtures("without_namespaces")
async def test_root_without_namespaces_hands_over_the_data_only(open_folder: Path) -> None:
    """The server runs as another user, who gets the data folder and nothing else; parents keep their modes."""
    account = identity.account_for(open_folder / "none")
    assert account.uid is not None
    assert account.gid is not None
    skip_unless_reachable(find_postgres().folder / "postgres", account.uid, account.gid)
    with EmbeddedPostgres(open_folder / "home" / "pg", settings=fast_test_settings) as server:
        connection = await asyncpg.connect(server.url())
        await connection.close()
        server.kill()
        server.start()
        owners = {path.name: path.stat().st_uid for path in (server.home, *server.home.iterdir())}
        assert owners.pop("data") == account.uid
        assert set(owners.values()) == {0}
        assert [mode_of(open_folder), mode_of(server.home / "data")] == [0o711, 0o700]


@pytest.mark.usefixtures("without_namespaces")
def test_root_without_namespaces_in_a_closed_folder_is_told(tmp_path: Path) -> None:
    """A folder that the other user cannot reach is named; nothing is opened up."""
    tmp_path.chmod(0o700)
    with pytest.raises(ConfigurationError, match=r"cannot pass /"):
        EmbeddedPostgres(tmp_path / "pg").start()
    assert mode_of(tmp_path) == 0o700


def test_root_in_a_closed_folder_of_a_user_is_told(open_folder: Path) -> None:
    """Without root's rights PostgreSQL cannot enter another user's closed folder: the error names it, nothing is opened."""
    closed = open_folder / "closed"
    closed.mkdir(mode=0o700)
    os.chown(closed, 54_321, 54_321)
    with pytest.raises(ConfigurationError, match=rf"cannot pass {closed} on the way"):
        EmbeddedPostgres(closed / "pg").start()
    assert mode_of(closed) == 0o700


def test_normal_user_needs_nothing_special(open_folder: Path) -> None:
    """Both servers start, die, recover and stop under an ordinary user, who owns them."""
    nobody = pwd.getpwnam("nobody")
    for program in (find_postgres().folder / "postgres", find_valkey().path):
        skip_unless_reachable(program, nobody.pw_uid, nobody.pw_gid)
    home = open_folder / "home"
    home.mkdir(mode=0o700)
    os.chown(home, nobody.pw_uid, nobody.pw_gid)
    ran = subprocess.run(
        [sys.executable, "-c", AS_NOBODY, str(home), str(nobody.pw_uid), str(nobody.pw_gid)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ran.returncode, ran.stdout) == (0, "fine\n"), ran.stderr


def test_folder_of_somebody_else_is_refused_for_a_user(open_folder: Path) -> None:
    """A normal user who meets root's server folder is told whose it is, not given a traceback of permissions."""
    nobody = pwd.getpwnam("nobody")
    code = AS_NOBODY.partition("with Embedded")[0] + (
        "from homing.errors import ConfigurationError\n"
        "try:\n    EmbeddedPostgres(home).start()\nexcept ConfigurationError as error:\n    print(error)\n"
    )
    closed = open_folder / "roots"
    closed.mkdir(mode=0o755)
    ran = subprocess.run(
        [sys.executable, "-c", code, str(closed), str(nobody.pw_uid), str(nobody.pw_gid)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert f"{closed} cannot be the home of a server: user id {nobody.pw_uid}" in ran.stdout, ran.stderr
