"""Every engine, behind the same few handles, so that one suite speaks to all of them."""

import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest
from redis import Redis

from homing.embedded import EmbeddedValkey, stop_with_parent
from homing.ids import JobId, new_token
from homing.queue.job import ClaimedJob, KeepRule, NewJob
from homing.queue.memory import MemoryEngine
from homing.queue.port import Accepted, ClaimRequest, Engine, Limit
from homing.queue.redis import RedisEngine

QUEUE = "mail"
KEEP = KeepRule()


@dataclass
class LaterClock:
    """The machine's clock, ahead by `seconds`."""

    seconds: float = 0.0

    def now(self) -> datetime:
        return datetime.now(UTC) + timedelta(seconds=self.seconds)

    def monotonic(self) -> float:
        return time.monotonic() + self.seconds


@dataclass
class Subject:
    """An engine under test, and what the suite does to it from outside."""

    engine: Engine
    server_url: str | None

    def advance(self, seconds: float) -> None:
        """Let the engine's clock go forward; what the server itself lets expire keeps to its own."""
        if isinstance(self.engine, MemoryEngine):
            assert isinstance(self.engine._clock, LaterClock)
            self.engine._clock.seconds += seconds
        else:
            assert isinstance(self.engine, RedisEngine)
            self.engine._offset_seconds += seconds

    def flush(self) -> None:
        """Lose all data, as an operator's FLUSHALL does."""
        if isinstance(self.engine, MemoryEngine):
            self.engine.flush()
        else:
            assert self.server_url is not None
            with Redis.from_url(self.server_url) as client:
                client.flushall()

    async def add(self, *ids: str, queue: str = QUEUE, **terms: object) -> None:
        """Add jobs that must be accepted."""
        jobs = [job(job_id, **terms) for job_id in ids]
        assert await self.engine.add(queue, jobs) == [Accepted.ACCEPTED] * len(jobs)

    async def claim(self, lease_seconds: float = 30.0, limit: Limit | None = None, queue: str = QUEUE) -> ClaimedJob:
        """Claim a job that must be there."""
        claimed = await self.engine.claim(queue, ask(lease_seconds, limit))
        assert isinstance(claimed, ClaimedJob), claimed
        return claimed


def job(job_id: str, **terms: object) -> NewJob:
    """A job with nothing special about it but `terms`."""
    fields: dict[str, object] = {"name": "send", "data": "{}", "timestamp_ms": 1_700_000_000_000, **terms}
    return NewJob(id=JobId(job_id), **fields)  # type: ignore[arg-type]  # tests name only the fields that matter


def ask(lease_seconds: float = 30.0, limit: Limit | None = None, worker: str = "") -> ClaimRequest:
    """A claim with a fresh token."""
    return ClaimRequest(new_token(), lease_seconds, limit, worker)


@pytest.fixture(scope="session")
def disposable_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedValkey]:
    """A Valkey of the contract suite's own, which its tests may flush."""
    with EmbeddedValkey(tmp_path_factory.mktemp("disposable")) as server:
        stop_with_parent(server)
        yield server


@pytest.fixture(params=["memory", "redis"])
async def subject(request: pytest.FixtureRequest) -> AsyncIterator[Subject]:
    """One engine after the other, each without any job."""
    if request.param == "memory":
        yield Subject(MemoryEngine(LaterClock()), None)
        return
    server: EmbeddedValkey = request.getfixturevalue("disposable_server")
    with Redis.from_url(server.url()) as client:
        client.flushall()
    engine = RedisEngine(server.url())
    await engine.open()
    yield Subject(engine, server.url())
    await engine.close()
