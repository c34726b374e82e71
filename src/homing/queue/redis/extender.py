"""Renews leases from another thread, over a connection and an event loop of its own, so that no handler can hold it up."""

import asyncio
from collections.abc import Sequence

from homing.config.redis_url import RedisUrl
from homing.queue.job import Lease
from homing.queue.port import Held
from homing.queue.redis.connection import Connection
from homing.queue.redis.encoding import milliseconds
from homing.queue.redis.keys import QueueKeys
from homing.queue.redis.link import Link, Word
from homing.queue.redis.scripts import Script, ScriptCall, run_many


class RedisExtender:
    """One pipeline renews all leases; connects on first use and again after an error.

    Synchronous: each call turns the private event loop until it has its answer, and the calling thread must have no running loop.
    `silence_seconds` bounds every wait: the caller must hear of a silent server well within a lease.
    """

    def __init__(self, url: RedisUrl, *, prefix: str, script: Script, silence_seconds: float) -> None:
        self._prefix = prefix
        self._script = script
        self._loop = asyncio.new_event_loop()
        self._connection = Connection(
            url, client_name="homing-leases", welcome=_accept, silence_seconds=silence_seconds
        )

    def extend(self, leases: Sequence[Lease], lease_seconds: float) -> list[Held]:
        """Renew each lease; a lease that is not ours is told apart by what the server holds instead."""
        return self._loop.run_until_complete(self._extend(leases, max(1, milliseconds(lease_seconds))))

    def close(self) -> None:
        """Close the connection and the loop."""
        self._loop.run_until_complete(self._connection.close())
        self._loop.close()

    async def _extend(self, leases: Sequence[Lease], lease_ms: int) -> list[Held]:
        calls = [
            ScriptCall(
                self._script,
                self._keys(lease).extend_lock(lease.job_id),
                (lease.token, lease_ms, lease.job_id),
            )
            for lease in leases
        ]
        renewed = await run_many(self._connection, calls)
        for answer in renewed:
            if isinstance(answer, BaseException):
                raise answer
        lost = [lease for lease, answer in zip(leases, renewed, strict=True) if answer != 1]
        verdicts = iter(await self._what_became_of(lost))
        return [Held.HELD if answer == 1 else next(verdicts) for answer in renewed]

    async def _what_became_of(self, leases: Sequence[Lease]) -> list[Held]:
        commands: list[tuple[Word, ...]] = []
        for lease in leases:
            keys = self._keys(lease)
            commands += [
                ("GET", keys.lock(lease.job_id)),
                ("HEXISTS", keys.part(lease.job_id), "finishedOn"),
            ]
        answers = await asyncio.gather(*(self._connection.call(*words) for words in commands))
        # Another token holds it, or nobody does and the job has ended: nothing is left for this run to change.
        return [
            Held.TAKEN if holder is not None or is_finished else Held.MISSING
            for holder, is_finished in zip(answers[::2], answers[1::2], strict=True)
        ]

    def _keys(self, lease: Lease) -> QueueKeys:
        return QueueKeys(self._prefix, lease.queue)


async def _accept(_: Link) -> None:
    """The engine's own connection has checked the server."""
