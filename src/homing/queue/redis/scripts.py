"""BullMQ's Lua scripts, read as data from the official wheel, verified, and called by hash."""

import asyncio
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from homing.errors import ConfigurationError, MissingExtraError
from homing.queue.redis.connection import Connection
from homing.queue.redis.link import Word
from homing.queue.redis.replies import ResponseError

NAMES = (
    "addDelayedJob-6",
    "addJobScheduler-11",
    "addParentJob-6",
    "addLog-2",
    "addPrioritizedJob-9",
    "addStandardJob-9",
    "cleanJobsInSet-3",
    "extendLock-2",
    "getJobScheduler-1",
    "moveJobFromActiveToWait-9",
    "moveStalledJobsToWait-9",
    "moveToActive-11",
    "moveToDelayed-11",
    "moveToFinished-14",
    "moveToWaitingChildren-7",
    "obliterate-2",
    "pause-7",
    "promote-9",
    "removeJob-2",
    "removeJobScheduler-3",
    "removeUnprocessedChildren-2",
    "reprocessJob-9",
    "retryJob-11",
    "updateJobScheduler-12",
    "updateProgress-3",
)

# The official finish script leases the next job with the token of the finished one. A token that is used once is what
# fences off earlier runs, so the verified text gets one line that takes the caller's fresh token for the next lease.
_FETCH = 'if (ARGV[6] == "1") then'
_FETCH_WITH_FRESH_TOKEN = _FETCH + "\n        opts['token'] = opts['nextToken'] or token"

# After each lease the official scripts set the marker, whether or not anything is left to lease: at low load every job would cost a
# second wake-up and a claim in vain. What waits, and what is delayed, still sets it, and so does every add.
_MARK = "addBaseMarkerIfNeeded(markerKey, false)"
_MARK_WHAT_IS_LEFT = (
    "addBaseMarkerIfNeeded(markerKey, "
    'rcall("EXISTS", keyPrefix .. "wait", keyPrefix .. "prioritized", keyPrefix .. "delayed") == 0)'
)

# A schedule is set by many processes at once, each by what it saw: whoever saw an older tick than there is now must look again, or it would
# take away a tick that has come due meanwhile.
_LAST_TICK = 'local prevMillis = rcall("ZSCORE", repeatKey, jobSchedulerId)'
_LAST_TICK_AS_SEEN = _LAST_TICK + '\nif ARGV[10] and ARGV[10] ~= (prevMillis or "") then return -100 end'


@dataclass(frozen=True, slots=True)
class Script:
    """One script: its text, the hash the server knows it by, and how many KEYS it takes (from its file's name)."""

    name: str
    text: str
    sha: str
    key_count: int


@dataclass(frozen=True, slots=True)
class ScriptSet:
    """The scripts Homing calls, from one version of the wheel."""

    library_version: str
    add_delayed: Script
    add_scheduler: Script
    add_parent: Script
    add_log: Script
    add_prioritized: Script
    add_standard: Script
    clean: Script
    extend_lock: Script
    get_scheduler: Script
    move_to_wait: Script
    move_stalled: Script
    move_to_active: Script
    move_to_delayed: Script
    move_to_finished: Script
    move_to_waiting_children: Script
    obliterate: Script
    pause: Script
    promote: Script
    remove: Script
    remove_scheduler: Script
    remove_unprocessed_children: Script
    reprocess: Script
    retry: Script
    update_scheduler: Script
    update_progress: Script


@dataclass(frozen=True, slots=True)
class ScriptCall:
    """One call of a script, ready to be sent."""

    script: Script
    keys: tuple[str, ...]
    arguments: tuple[Word, ...]

    def words(self, command: str, script: str) -> tuple[Word, ...]:
        return (command, script, len(self.keys), *self.keys, *self.arguments)


async def run(
    connection: Connection, script: Script, keys: tuple[str, ...], *arguments: Word, at_once: bool = False
) -> Any:
    """Call a script; a server that does not have it (a restart, a flush of scripts) gets its text with the call. `at_once`: it is much work."""
    call = connection.call_now if at_once else connection.call
    try:
        return await call("EVALSHA", script.sha, len(keys), *keys, *arguments)
    except ResponseError as error:
        if error.code != "NOSCRIPT":
            raise
    return await connection.call("EVAL", script.text, len(keys), *keys, *arguments)


async def run_many(connection: Connection, calls: Sequence[ScriptCall]) -> list[Any]:
    """Call many scripts in one write; an answer per call, an exception in its place where a call was refused."""
    answers = await _gather(connection, [call.words("EVALSHA", call.script.sha) for call in calls])
    missing = [at for at, answer in enumerate(answers) if _is_unknown_script(answer)]
    if missing:
        texts = {calls[at].script.text for at in missing}
        loads: list[tuple[Word, ...]] = [("SCRIPT", "LOAD", text) for text in texts]
        again = [calls[at].words("EVALSHA", calls[at].script.sha) for at in missing]
        second = await _gather(connection, loads + again)
        for at, answer in zip(missing, second[len(loads) :], strict=True):
            answers[at] = answer
    return answers


async def _gather(connection: Connection, commands: Sequence[tuple[Word, ...]]) -> list[Any]:
    return await asyncio.gather(*(connection.call(*words) for words in commands), return_exceptions=True)


def _is_unknown_script(answer: object) -> bool:
    return isinstance(answer, ResponseError) and answer.code == "NOSCRIPT"


# ── Reading the wheel ───────────────────────────────────────────────────────────────────────────────────────────────


@cache
def load_scripts() -> ScriptSet:
    """Read and verify the scripts of the installed wheel; `ConfigurationError` when they are not the ones we know."""
    installed = installed_version()
    manifest = known_scripts()
    if installed not in manifest:
        raise ConfigurationError(
            f"bullmq {installed} is installed, but Homing knows the scripts of {_list(manifest)} only: "
            'pip install "homing[redis]"'
        )
    scripts = [_verified(name, manifest[installed], installed, list(manifest)) for name in NAMES]
    return ScriptSet(installed, *scripts)


def installed_version() -> str:
    """The version of the bullmq wheel beside us."""
    try:
        return version("bullmq")
    except PackageNotFoundError as error:
        raise MissingExtraError("the Redis engine", "redis") from error


def known_scripts() -> dict[str, dict[str, str]]:
    """The manifest in our own tree: library version → script name → SHA-256 of its text."""
    text = files(__package__).joinpath("scripts.json").read_text(encoding="utf-8")
    manifest: dict[str, dict[str, str]] = json.loads(text)
    return manifest


def read_script(name: str) -> bytes:
    """A script's file, found without importing the package it lies in."""
    spec = find_spec("bullmq")
    if spec is None or spec.origin is None:
        raise MissingExtraError("the Redis engine", "redis")
    try:
        return Path(spec.origin).with_name("commands").joinpath(f"{name}.lua").read_bytes()
    except OSError as error:
        raise ConfigurationError(f"bullmq {installed_version()} has no readable script {name}: {error}") from error


def fingerprint(text: bytes) -> str:
    """What the manifest holds for a script."""
    return hashlib.sha256(text).hexdigest()


def _verified(name: str, hashes: dict[str, str], installed: str, known: list[str]) -> Script:
    text = read_script(name)
    if hashes.get(name) != fingerprint(text):
        raise ConfigurationError(
            f"the script {name} of bullmq {installed} is not the one Homing was tested with (known: {_list(known)}): "
            "reinstall bullmq, and do not edit its files"
        )
    return as_script(name, text.decode())


@cache
def own_script(name: str) -> Script:
    """A script of ours, from `lua/`; like an official one's, its name ends with the number of its KEYS."""
    return as_script(name, files(__package__).joinpath("lua", f"{name}.lua").read_text(encoding="utf-8"))


def as_script(name: str, text: str) -> Script:
    """A script ready to call; the finish script takes a fresh token for the job it leases next."""
    if name.startswith("moveToFinished"):
        text = _replaced(name, text, _FETCH, _FETCH_WITH_FRESH_TOKEN)
    if name.startswith(("moveToActive", "moveToFinished")):
        text = _replaced(name, text, _MARK, _MARK_WHAT_IS_LEFT)
    if name.startswith("addJobScheduler"):
        text = _replaced(name, text, _LAST_TICK, _LAST_TICK_AS_SEEN)
    sha = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
    return Script(name, text, sha, int(name.rpartition("-")[2]))


def _replaced(name: str, text: str, official: str, ours: str) -> str:
    if text.count(official) != 1:
        raise ConfigurationError(f"the script {name} has changed: it has {official!r} not exactly once")
    return text.replace(official, ours)


def _list(versions: Sequence[str] | dict[str, dict[str, str]]) -> str:
    return ", ".join(versions)
