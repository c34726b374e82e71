"""Node's packages for tests and benchmarks: what `node/package-lock.json` pins, installed once into `.homing/node`.

    python -m tests.interop.npm             # installs what is pinned, if need be
    python -m tests.interop.npm --newest    # beside it, the newest BullMQ 6

Without Node, without npm or without a registry there is nothing to install: that is said aloud, and is no error. Everything else that npm
complains about is one. Tests and benchmarks never install; they use what is there.
"""

import argparse
import hashlib
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

WANTED = Path(__file__).with_name("node")
HOME = Path(__file__).parents[2] / ".homing" / "node"
PINNED = HOME / hashlib.sha256((WANTED / "package-lock.json").read_bytes()).hexdigest()[:12]
"""Named after the lock: when that changes, what was installed is not what is wanted."""
NEWEST = HOME / "newest"
OLDEST_NODE = 20
INSTALL_SECONDS = 300.0

_UNREACHABLE = re.compile(
    r"\b(ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH|EHOSTUNREACH|ERR_SOCKET_TIMEOUT|E50[234])\b"
)
_QUIET = (
    "--ignore-scripts",
    "--no-audit",
    "--no-fund",
    "--loglevel=error",
    "--fetch-retries=1",
    "--fetch-timeout=30000",
)


class NodeIsMissingError(Exception):
    """There is no Node here to run anything on, or no registry to install from."""


class NpmFailedError(Exception):
    """npm reached its registry and failed all the same."""


class NothingNewerError(Exception):
    """The newest BullMQ is the pinned one, with which everything was proved already."""


@dataclass(frozen=True, slots=True)
class Installed:
    """A folder with `node_modules` in it."""

    folder: Path

    @property
    def bullmq(self) -> str:
        """The version of BullMQ."""
        package = self.folder / "node_modules" / "bullmq" / "package.json"
        version: str = json.loads(package.read_text(encoding="utf-8"))["version"]
        return version


def installed(*, newest: bool = False) -> Installed:
    """What an earlier install left; `NodeIsMissingError` where there is nothing."""
    _require_node()
    folder = NEWEST if newest else PINNED
    if not _stamp(folder).exists():
        raise NodeIsMissingError("its packages are not installed: python -m tests.interop.npm" + " --newest" * newest)
    return Installed(folder)


def install(*, newest: bool = False) -> Installed:
    """Install what is not there yet; the newest BullMQ is asked for each time."""
    _require_node()
    folder = NEWEST if newest else PINNED
    if newest and (version := _newest_version()) == _pinned_version():
        raise NothingNewerError(f"bullmq {version} is the newest 6 and the pinned one: there is nothing more to prove")
    if newest or not _stamp(folder).exists():
        shutil.rmtree(folder if newest else HOME, ignore_errors=True)
        folder.mkdir(parents=True)
        for name in ("package.json", "package-lock.json", ".npmrc"):
            shutil.copy(WANTED / name, folder)
        _npm(folder, "ci")
        if newest:
            _npm(folder, "install", "--no-save", "bullmq@6")
        _stamp(folder).touch()
    return Installed(folder)


def _stamp(folder: Path) -> Path:
    """Written last: a folder without it was left in the middle of an install."""
    return folder / ".installed"


def _require_node() -> None:
    if not (shutil.which("node") and shutil.which("npm")):
        raise NodeIsMissingError("node and npm are not both on the PATH")
    version = node_version()
    if int(version.removeprefix("v").partition(".")[0]) < OLDEST_NODE:
        raise NodeIsMissingError(f"node is {version}, and {OLDEST_NODE} or newer is needed")


def node_version() -> str:
    """The version of node itself, as in v20.1.0."""
    return subprocess.run(["node", "--version"], check=True, capture_output=True, text=True).stdout.strip()  # noqa: S607 - the one on the PATH is meant


def _pinned_version() -> str:
    version: str = json.loads((WANTED / "package.json").read_text(encoding="utf-8"))["dependencies"]["bullmq"]
    return version


def _newest_version() -> str:
    versions: list[str] | str = json.loads(_npm(WANTED, "view", "bullmq@6", "version", "--json"))
    listed = [versions] if isinstance(versions, str) else versions
    return max(listed, key=lambda version: [int(part) for part in re.findall(r"\d+", version)])


def _npm(folder: Path, *words: str) -> str:
    command = ["npm", *words, *_QUIET]
    try:
        done = subprocess.run(command, cwd=folder, timeout=INSTALL_SECONDS, check=False, capture_output=True, text=True)
    except subprocess.TimeoutExpired as error:
        raise NodeIsMissingError(f"npm did not get its packages within {INSTALL_SECONDS:g} s") from error
    if done.returncode == 0:
        return done.stdout
    if _UNREACHABLE.search(done.stderr):
        raise NodeIsMissingError(f"npm cannot reach its registry: {_said(done.stderr)}")
    raise NpmFailedError(f"npm {' '.join(words)} failed in {folder}: {_said(done.stderr)}")


def _said(stderr: str) -> str:
    """The code and the reason, which npm says first, before its advice."""
    return " ".join(stderr.replace("npm error", "").split())[:300]


def main(arguments: Sequence[str] | None = None) -> int:
    """Install; 0 also where there is nothing to install with, which is said aloud; 3 where the newest is the pinned one."""
    parser = argparse.ArgumentParser(prog="python -m tests.interop.npm", description=__doc__)
    parser.add_argument("--newest", action="store_true", help="the newest BullMQ 6, beside the pinned one")
    options = parser.parse_args(arguments)
    try:
        done = install(newest=options.newest)
    except NodeIsMissingError as error:
        sys.stderr.write(f"!!! NODE IS LEFT OUT: {error}\n")
        return 0
    except NothingNewerError as error:
        sys.stdout.write(f"{error}\n")
        return 3
    except NpmFailedError as error:
        sys.stderr.write(f"npm: {error}\n")
        return 1
    sys.stdout.write(f"Node {node_version()}, bullmq {done.bullmq}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
