"""Where Node's BullMQ comes from: npm, once, into `.homing/bench`. Whatever is missing is said, and Node is left out."""

import json
import shutil
import subprocess
from pathlib import Path

FOLDER = Path(".homing/bench").absolute()
WANTED = "bullmq@6", "ioredis@6"
INSTALL_SECONDS = 60.0


def installed_bullmq() -> str | None:
    """The version of BullMQ in our folder, installed now if need be; `None`, with the reason printed, when there is none."""
    if not (shutil.which("node") and shutil.which("npm")):
        return _no_node("node and npm are not both on the PATH")
    package = FOLDER / "node_modules" / "bullmq" / "package.json"
    if not (package.exists() and (FOLDER / "node_modules" / "ioredis").exists()):
        FOLDER.mkdir(parents=True, exist_ok=True)
        (FOLDER / "package.json").write_text('{"private": true}\n', encoding="utf-8")
        command = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error", *WANTED]
        try:
            done = subprocess.run(
                command, cwd=FOLDER, timeout=INSTALL_SECONDS, check=False, capture_output=True, text=True
            )
        except subprocess.TimeoutExpired:
            return _no_node(f"npm did not finish within {INSTALL_SECONDS:g} s")
        if done.returncode:
            return _no_node(f"npm failed: {done.stderr.strip()[-500:]}")
    version: str = json.loads(package.read_text(encoding="utf-8"))["version"]
    return version


def node_version() -> str:
    """The version of node itself."""
    return subprocess.run(["node", "--version"], check=True, capture_output=True, text=True).stdout.strip()  # noqa: S607 - the one on the PATH is the one that is measured


def _no_node(why: str) -> str | None:
    print(f"!!! NODE IS LEFT OUT OF THIS RUN: {why}", flush=True)
    return None
