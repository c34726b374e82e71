"""The engine of a process that only enqueues: opened at the first use, one for each event loop, quick to say that Redis is away."""

import importlib
from typing import Protocol, cast

from homing.config.settings import Settings
from homing.ids import JobId
from homing.queue.browse import SteeredEngine
from homing.queue.following import Following, QueueEvent

ANSWER_SECONDS = 2.0
"""How long a call waits for Redis at the most. A web request waits for it, so that it fails soon; nothing is kept in memory meanwhile."""


class DirectEngine(SteeredEngine, Following, Protocol):
    """An engine that takes jobs from anybody and tells what becomes of them."""

    async def find_end(self, queue: str, job_id: JobId, since_ms: int) -> QueueEvent | None:
        """The last event since then (by the engine's clock) that says how the job ended; `None` when none is kept."""
        ...

    @property
    def is_connected(self) -> bool:
        """Whether calls are sent at once."""
        ...

    @property
    def now_ms(self) -> int:
        """The engine's clock, as measured last."""
        ...


def make_engine(settings: Settings, app: str) -> DirectEngine:
    """An engine that connects when it is first asked; its client library is imported here, and nowhere in a process that only records."""
    redis = importlib.import_module("homing.queue.redis")
    engine = redis.RedisEngine(settings.redis_dsn, prefix=settings.prefix or app, silence_seconds=ANSWER_SECONDS)
    return cast("DirectEngine", engine)
