"""Our engine as a player."""

from typing import Any

from redis import Redis

from homing.backoff import Backoff
from homing.ids import JobId, LeaseToken
from homing.queue.browse import JobState
from homing.queue.job import ClaimedJob, KeepRule, Lease, NewJob
from homing.queue.port import Accepted, AddResult, ClaimRequest, Deduplicated, Held, Limit, QueueSettings
from homing.queue.redis import RedisEngine
from tests.interop.player import HOUR, HOUR_MS, QUEUE, START_MS, WORKER, Player, Terms


class ClockedEngine(RedisEngine):
    """Our engine, told the time by whoever tests it."""

    def __init__(self, url: str, *, prefix: str) -> None:
        super().__init__(url, prefix=prefix)
        self.told_ms = START_MS

    def _now_ms(self) -> int:
        return self.told_ms


class Ours(Player):
    """Plays with our engine."""

    def __init__(self, client: Redis, engine: ClockedEngine, prefix: str) -> None:
        super().__init__(client, prefix)
        self.engine = engine
        self.claimed: list[ClaimedJob] = []
        self.keeps: dict[str, tuple[KeepRule, KeepRule]] = {}

    async def _set_clock(self) -> None:
        self.engine.told_ms = self.now_ms

    async def add(self, *ids: str, **terms: Any) -> Any:
        jobs = [self._job(job_id, Terms(**terms)) for job_id in ids]
        self.keeps |= {job.id: (job.keep_completed, job.keep_failed) for job in jobs}
        answers = await self.engine.add(QUEUE, jobs)
        return [_standing(job.id, answer) for job, answer in zip(jobs, answers, strict=True)]

    def _job(self, job_id: str, terms: Terms) -> NewJob:
        return NewJob(
            id=JobId(job_id),
            name="send",
            data='{"to":"π"}',
            timestamp_ms=self.now_ms,
            attempts=terms.attempts,
            delay_seconds=terms.delay_hours * HOUR,
            priority=terms.priority,
            lifo=terms.lifo,
            backoff=terms.backoff and Backoff(kind=terms.backoff[0], delay_seconds=terms.backoff[1] * HOUR),  # type: ignore[arg-type]  # a kind of ours
            keep_completed=terms.keep_completed,
            keep_failed=terms.keep_failed,
            deduplication=terms.same,
        )

    async def claim(self) -> str | None:
        return self._note(await self.engine.claim(QUEUE, self._request(self._token())))

    async def complete(self, which: int, *, claims_next: bool = False) -> Any:
        job = self.claimed[which]
        next_claim = self._request(job.lease.token) if claims_next else None
        keep = self.keeps[job.lease.job_id][0]
        done = await self.engine.complete(job, '{"ok":true}', mark=None, keep=keep, claim_next=next_claim)
        return self._ended(done.held, done.next)

    async def fail(self, which: int, *, claims_next: bool = False) -> Any:
        job = self.claimed[which]
        next_claim = self._request(job.lease.token) if claims_next else None
        keep = self.keeps[job.lease.job_id][1]
        done = await self.engine.fail(job, "no", stack="S", mark=None, keep=keep, claim_next=next_claim)
        return self._ended(done.held, done.next)

    async def retry(self, which: int, *, delay_hours: float = 0.0, claims_next: bool = False) -> Any:
        job = self.claimed[which]
        if job.attempt >= job.attempts:  # whoever runs it decides that
            return await self.fail(which, claims_next=claims_next)
        next_claim = self._request(job.lease.token) if claims_next else None
        done = await self.engine.retry(
            job, delay_hours * HOUR, spend_attempt=True, reason="no", stack="S", claim_next=next_claim
        )
        return self._ended(done.held, done.next)

    async def snooze(self, which: int, delay_hours: float) -> Any:
        done = await self.engine.retry(
            self.claimed[which], delay_hours * HOUR, spend_attempt=False, reason="", stack="", claim_next=None
        )
        return self._ended(done.held, None)

    async def release(self, which: int) -> Any:
        return self._ended(await self.engine.release(self.claimed[which]), None)

    async def extend(self, which: int) -> Any:
        # The engine's own extender has a loop of its own; here its one call is made on ours.
        extender = self.engine.extender()
        job = self.claimed[which]
        answers = await extender._extend([Lease(QUEUE, job.lease.job_id, job.lease.token)], HOUR_MS)  # type: ignore[attr-defined]  # its inside
        await extender._connection.close()  # type: ignore[attr-defined]  # as above
        extender._loop.close()  # type: ignore[attr-defined]  # as above
        return answers == [Held.HELD]

    async def rescue(self) -> Any:
        return sorted(await self.engine.rescue(QUEUE, HOUR))

    async def promote(self, job_id: str) -> Any:
        return await self.engine.promote(QUEUE, JobId(job_id))

    async def rerun(self, job_id: str) -> Any:
        return await self.engine.rerun(QUEUE, JobId(job_id))

    async def remove(self, job_id: str) -> Any:
        return await self.engine.remove(QUEUE, JobId(job_id))

    async def clean(self, state: str, *, hours: float, most: int) -> Any:
        return await self.engine.clean(QUEUE, JobState(state), hours * HOUR, most)

    async def drain(self, *, delayed: bool) -> Any:
        await self.engine.drain(QUEUE, delayed=delayed)

    async def obliterate(self, *, force: bool) -> Any:
        return (await self.engine.obliterate(QUEUE, force=force)).value

    async def pause(self, *, paused: bool) -> Any:
        await self.engine.push_settings(QUEUE, QueueSettings(paused=paused))

    async def limit(self, jobs: int | None) -> Any:
        await self.engine.push_settings(QUEUE, QueueSettings(limit=None if jobs is None else Limit(jobs, HOUR)))

    async def concurrency(self, jobs: int | None) -> Any:
        await self.engine.push_settings(QUEUE, QueueSettings(concurrency=jobs))

    async def throttle(self, hours: float) -> Any:
        await self.engine.throttle(QUEUE, hours * HOUR, None)

    def _request(self, token: str) -> ClaimRequest:
        return ClaimRequest(LeaseToken(token), HOUR, None, WORKER)

    def _ended(self, held: Held, following: object) -> Any:
        return (held is Held.HELD, self._note(following))

    def _note(self, claimed: object) -> str | None:
        if not isinstance(claimed, ClaimedJob):
            return None
        self.claimed.append(claimed)
        return claimed.lease.job_id


def _standing(job_id: JobId, answer: AddResult) -> str:
    """The id of the job that was added, or of the one that stands for it."""
    match answer:
        case Accepted():
            return job_id
        case Deduplicated():
            return answer.standing
        case _:
            raise AssertionError(f"{job_id} was refused: {answer}")
