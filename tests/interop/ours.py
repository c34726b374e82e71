"""Our engine as a player."""

from dataclasses import replace
from typing import Any

from redis import Redis

from homing.backoff import Backoff
from homing.events.codec import dump_json
from homing.ids import JobId, LeaseToken
from homing.queue.browse import JobState
from homing.queue.flows import FlowJob
from homing.queue.job import ClaimedJob, KeepRule, NewJob
from homing.queue.parent import JobRef, OnFailure, Parent
from homing.queue.port import (
    Accepted,
    AddResult,
    ClaimRequest,
    Completion,
    Deduplicated,
    Finished,
    Held,
    Limit,
    QueueSettings,
)
from homing.queue.redis import RedisEngine
from homing.queue.schedules import Schedule, read_tick
from tests.interop.player import CHILDREN, HOUR, HOUR_MS, QUEUE, START_MS, WORKER, Player, Terms


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

    async def claim(self, queue: str = QUEUE) -> str | None:
        job_id = self._note(await self.engine.claim(queue, self._request(self._token())))
        tick = None if job_id is None else read_tick(job_id)
        if tick is not None:
            await self.engine.advance(queue, tick)
        return job_id

    async def claim_group(self, most: int) -> list[str]:
        claims = await self.engine.claim_group(QUEUE, self._request(self._token()), most)
        return [str(self._note(job)) for job in claims.jobs]

    async def complete_group(self, *which: int) -> list[Any]:
        jobs = [self.claimed[one] for one in which]
        completions = [Completion(job, '{"ok":true}', None, self._keep(job)[0]) for job in jobs]
        endings = await self.engine.complete_group(QUEUE, completions, self._request(self._token()))
        return [self._ended(one.held, one.next) for one in endings if isinstance(one, Finished)]

    async def complete(self, which: int, *, claims_next: bool = False) -> Any:
        job = self.claimed[which]
        next_claim = self._request(job.lease.token) if claims_next else None
        keep, _ = self._keep(job)
        done = await self.engine.complete(job, '{"ok":true}', mark=None, keep=keep, claim_next=next_claim)
        return self._ended(done.held, done.next)

    async def fail(self, which: int, *, claims_next: bool = False) -> Any:
        job = self.claimed[which]
        next_claim = self._request(job.lease.token) if claims_next else None
        _, keep = self._keep(job)
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
        answers = await extender._extend([job.lease], HOUR_MS)  # type: ignore[attr-defined]  # its inside
        await extender._connection.close()  # type: ignore[attr-defined]  # as above
        extender._loop.close()  # type: ignore[attr-defined]  # as above
        return answers == [Held.HELD]

    async def progress(self, job_id: str, value: object) -> Any:
        return await self.engine.note_progress(QUEUE, JobId(job_id), dump_json(value))

    async def log(self, job_id: str, *lines: str) -> Any:
        return await self.engine.note_lines(QUEUE, JobId(job_id), lines)

    async def add_flow(self, parent: str, *children: str, on_failure: OnFailure, **terms: Any) -> Any:
        jobs = [FlowJob(queue=QUEUE, job=self._job(parent, Terms(**terms)), waits=True)]
        jobs += [self._child(parent, child, on_failure) for child in children]
        return [
            _standing(one.job.id, answer) for one, answer in zip(jobs, await self.engine.add_flow(jobs), strict=True)
        ]

    async def add_child(self, parent: str, child: str, *, on_failure: OnFailure) -> Any:
        (answer,) = await self.engine.add_flow([self._child(parent, child, on_failure)])
        return _standing(JobId(child), answer)

    def _child(self, parent: str, child: str, on_failure: OnFailure) -> FlowJob:
        family = Parent(JobRef(QUEUE, JobId(parent)), on_failure)
        return FlowJob(queue=CHILDREN, job=replace(self._job(child, Terms()), parent=family))

    async def wait_for_children(self, which: int) -> Any:
        done = await self.engine.wait_for_children(self.claimed[which], claim_next=None)
        return self._ended(done.held, None)

    async def remove_children(self, parent: str) -> Any:
        await self.engine.remove_children(QUEUE, JobId(parent))

    async def schedule(self, name: str, **when: Any) -> Any:
        await self.engine.upsert_schedules(QUEUE, [self._schedule(name, **when)])

    def _schedule(
        self,
        name: str,
        *,
        every_hours: float | None = None,
        cron: str | None = None,
        zone: str = "UTC",
        start_hours: float | None = None,
        end_hours: float | None = None,
        limit: int | None = None,
        immediate: bool = False,
        attempts: int = 1,
    ) -> Schedule:
        return Schedule(
            id=name,
            job_name="tick",
            data='{"to":"π"}',
            options=dump_json({"attempts": attempts}),
            cron=cron,
            zone=zone,
            every_ms=None if every_hours is None else round(every_hours * HOUR_MS),
            start_ms=self._at(start_hours),
            end_ms=self._at(end_hours),
            limit=limit,
            immediate=immediate,
        )

    def _at(self, hours: float | None) -> int | None:
        return None if hours is None else self.now_ms + round(hours * HOUR_MS)

    async def unschedule(self, name: str) -> Any:
        return await self.engine.remove_schedule(QUEUE, name)

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

    def _keep(self, job: ClaimedJob) -> tuple[KeepRule, KeepRule]:
        return self.keeps.get(job.lease.job_id, (KeepRule(), KeepRule()))

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
