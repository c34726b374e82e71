"""Script calls that take effect together: in one MULTI, written at once, so that no other caller's command gets in between."""

import asyncio
from collections.abc import Sequence
from typing import Any

from homing.errors import ServerUnavailable
from homing.queue.redis.connection import Connection
from homing.queue.redis.link import Word
from homing.queue.redis.replies import ResponseError
from homing.queue.redis.scripts import Script, ScriptCall

_TRIES = 3


async def run_atomically(connection: Connection, calls: Sequence[ScriptCall]) -> list[Any]:
    """An answer per call, an exception in its place where one was refused.

    A server that forgets its scripts in between has done the other calls: all are made again, so that each must be idempotent. A
    connection that breaks before EXEC leaves nothing behind, one that breaks after it is an unknown end: `ServerUnavailable`.
    """
    if not calls:
        return []
    scripts = {call.script.sha: call.script for call in calls}
    commands = [call.words("EVALSHA", call.script.sha) for call in calls]
    for _ in range(_TRIES):
        await _make_known(connection, list(scripts.values()))
        answers = await _execute(connection, commands)
        if not any(isinstance(answer, ResponseError) and answer.code == "NOSCRIPT" for answer in answers):
            return answers
    raise ServerUnavailable("Redis forgets its scripts as soon as they are loaded: nothing was concluded")


async def _make_known(connection: Connection, scripts: Sequence[Script]) -> None:
    known = await connection.call("SCRIPT", "EXISTS", *(script.sha for script in scripts))
    missing = [script for script, there in zip(scripts, known, strict=True) if not there]
    await asyncio.gather(*(connection.call("SCRIPT", "LOAD", script.text) for script in missing))


async def _execute(connection: Connection, commands: Sequence[tuple[Word, ...]]) -> list[Any]:
    """All of it is handed to the connection in this turn of the loop, and leaves it in this order."""
    futures = [connection.call("MULTI"), *(connection.call(*words) for words in commands), connection.call("EXEC")]
    *queued, answers = await asyncio.gather(*futures, return_exceptions=True)
    for answer in queued:
        if isinstance(answer, BaseException):
            raise answer
    if isinstance(answers, BaseException):
        raise answers
    return list(answers)
