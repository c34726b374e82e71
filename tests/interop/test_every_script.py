"""The stories that are played use every script of BullMQ's that we call: a new script needs a new story. This needs no Node."""

from dataclasses import fields
from typing import Any

from redis import Redis

from homing.queue.redis.scripts import ScriptSet
from tests.interop.ours import ClockedEngine, Ours
from tests.interop.scenarios import SCENARIOS, SEVERAL


class Noted:
    """The scripts of an engine, and which of them were used."""

    def __init__(self, scripts: ScriptSet) -> None:
        self._scripts = scripts
        self.used: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        self.used.add(name)
        return getattr(self._scripts, name)


async def test_every_script_is_played(redis_url: str, redis_prefix: str) -> None:
    """All of them are called somewhere in the scenarios of the differential test."""
    used: set[str] = set()
    with Redis.from_url(redis_url, decode_responses=True) as client:
        for scenario in [*SCENARIOS, *SEVERAL]:
            prefix = f"{redis_prefix}:{scenario.__name__}"
            engine = ClockedEngine(redis_url, prefix=prefix)
            noted = Noted(engine._scripts)
            engine._scripts = noted  # type: ignore[assignment]  # it answers as they do
            await scenario(Ours(client, engine, prefix))
            await engine.close()
            used |= noted.used
    assert used >= {field.name for field in fields(ScriptSet)} - {"library_version"}
