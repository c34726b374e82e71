"""What BullMQ 5 keeps where no worker of BullMQ 6 looks, ours included: jobs of paused queues, and repeatable jobs."""

import asyncio
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from homing.queue.redis.connection import Connection
from homing.queue.redis.keys import QueueKeys

MOST_NAMED = 3
_PAGE = 1000
_OLD_KEY = re.compile(r"[^:]*:[^:]*:\d*:[^:]*:(.* .*|\d+)", re.DOTALL)
"""name:id:endDate:tz:pattern, the key of a repeatable job; a pattern has spaces, an interval is a number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftBehind:
    """What lies in one queue. `paused_jobs` were waiting when BullMQ 5 paused it; `repeatables` are the keys of its repeatable jobs."""

    queue: str
    paused_jobs: int = 0
    repeatables: tuple[str, ...] = ()

    def __str__(self) -> str:
        """The queue, and what lies there, for people."""
        return f"{self.queue} ({', '.join(self._parts())})"

    def _parts(self) -> Iterator[str]:
        if self.paused_jobs:
            yield f"{self.paused_jobs} jobs kept apart while it was paused"
        if self.repeatables:
            named = ", ".join(repr(key) for key in self.repeatables[:MOST_NAMED])
            yield f"{len(self.repeatables)} repeatable jobs, as {named}"

    @property
    def remedy(self) -> str:
        """What to do about it, in order."""
        steps = ["stop every process of BullMQ 5 that uses this queue"]
        if self.paused_jobs:
            steps.append(f"bring its jobs back: homing queues resume {self.queue}")
        if self.repeatables:
            steps.append(
                "make a schedule of each repeatable job, and remove that with BullMQ 5 (removeRepeatableByKey)"
            )
        return "; ".join(steps)


async def left_behind(connection: Connection, queues: Collection[QueueKeys]) -> tuple[LeftBehind, ...]:
    """What each of these queues holds of it; those that hold nothing are left out. Reads only."""
    found = [await _in_queue(connection, keys) for keys in sorted(queues, key=lambda keys: keys.queue)]
    return tuple(one for one in found if one.paused_jobs or one.repeatables)


async def _in_queue(connection: Connection, keys: QueueKeys) -> LeftBehind:
    paused, names = await asyncio.gather(
        connection.call("LLEN", keys.part("paused")), connection.call("ZRANGE", keys.repeat, 0, -1)
    )
    old: list[str] = []
    for start in range(0, len(names), _PAGE):
        old += await _old_ones(connection, keys, names[start : start + _PAGE])
    return LeftBehind(queue=keys.queue, paused_jobs=paused, repeatables=tuple(old))


async def _old_ones(connection: Connection, keys: QueueKeys, names: list[bytes]) -> list[str]:
    """Those that no job scheduler of BullMQ 6 stands for: it counts its ticks in `ic`, and nothing older does."""
    texts = [name.decode(errors="replace") for name in names]
    asked = [connection.call("HMGET", keys.scheduler(text), "ic", "name") for text in texts]
    records = zip(texts, await asyncio.gather(*asked), strict=True)
    return [text for text, (ticks, name) in records if ticks is None and (name is not None or _OLD_KEY.fullmatch(text))]
