"""BullMQ in Node as a player. What ours does beyond it is done here by hand, with the reason beside it."""

from typing import Any

from redis import Redis

from homing.queue.job import Deduplication, KeepRule
from homing.queue.parent import OnFailure
from tests.interop.node import Made, Node, NodeError, failure
from tests.interop.player import CHILDREN, HOUR_MS, QUEUE, QUEUES, WORKER, Player, Terms

NEVER = 1_000_000_000
POLICIES: dict[OnFailure, str] = {
    "fail": "failParentOnFailure",
    "continue": "continueParentOnFailure",
    "ignore": "ignoreDependencyOnFailure",
    "remove": "removeDependencyOnFailure",
}
NOT_HELD = ("Missing lock", "Missing key", "not in the active state", "Lock mismatch")

CLAIM = """async (worker, token) => {
  worker.limitUntil = 0;
  return (await worker.moveToActive(token, worker.opts.name)) ?? null;
}"""
END = """async (worker, job, method, first, token, claimsNext) => {
  const next = await job[method](first, token, claimsNext);
  worker.limitUntil = 0;
  return claimsNext && Array.isArray(next) ? (await worker.nextJobFromJobData(next[0], next[1], token)) ?? null : null;
}"""


class Theirs(Player):
    """Plays with BullMQ's own classes."""

    def __init__(self, client: Redis, node: Node, prefix: str) -> None:
        super().__init__(client, prefix)
        self.node = node
        self.claimed: list[Made] = []
        self.queues: dict[str, Made] = {}
        self.workers: dict[str, Made] = {}
        self.flows: Made

    @property
    def queue(self) -> Made:
        """The one that most is done to."""
        return self.queues[QUEUE]

    async def open(self) -> None:
        """Make queues, and workers that claim when they are told."""
        self.flows = await self.node.flows(prefix=self.prefix)
        terms = {"lockDuration": HOUR_MS, "stalledInterval": HOUR_MS, "maxStalledCount": NEVER, "name": WORKER}
        for name in QUEUES:
            self.queues[name] = await self.node.queue(name, prefix=self.prefix)
            self.workers[name] = await self.node.worker(name, None, prefix=self.prefix, skipStalledCheck=True, **terms)

    async def _set_clock(self) -> None:
        await self.node.clock(self.now_ms)

    async def add(self, *ids: str, **terms: Any) -> Any:
        each = [self._options(job_id, Terms(**terms)) for job_id in ids]
        jobs = [{"name": "send", "data": {"to": "π"}, "opts": options} for options in each]
        return [job.fields["id"] for job in await self.queue.call("addBulk", jobs)]

    def _options(self, job_id: str, terms: Terms) -> dict[str, Any]:
        options: dict[str, Any] = {
            "jobId": job_id,
            "timestamp": self.now_ms,
            "attempts": terms.attempts,
            "removeOnComplete": keep_as_node_says(terms.keep_completed),
            "removeOnFail": keep_as_node_says(terms.keep_failed),
        }
        if terms.delay_hours:
            options["delay"] = round(terms.delay_hours * HOUR_MS)
        if terms.priority:
            options["priority"] = terms.priority
        if terms.lifo:
            options["lifo"] = True
        if terms.backoff is not None:
            options["backoff"] = {"type": terms.backoff[0], "delay": round(terms.backoff[1] * HOUR_MS)}
        if terms.same is not None:
            options["deduplication"] = same_as_node_says(terms.same)
        return options

    async def claim(self, queue: str = QUEUE) -> str | None:
        return self._note(await self.node.run(CLAIM, self.workers[queue], self._token()))

    async def claim_group(self, most: int) -> list[str]:
        claimed = [await self.claim() for _ in range(most)]
        return [job_id for job_id in claimed if job_id is not None]

    async def complete_group(self, *which: int) -> list[Any]:
        return [await self.complete(one, claims_next=True) for one in which]

    async def complete(self, which: int, *, claims_next: bool = False) -> Any:
        return await self._end(which, "moveToCompleted", {"ok": True}, claims_next=claims_next)

    async def fail(self, which: int, *, claims_next: bool = False) -> Any:
        error = failure("no", stack="S", unrecoverable=True)
        return await self._end(which, "moveToFailed", error, claims_next=claims_next)

    async def retry(self, which: int, *, delay_hours: float = 0.0, claims_next: bool = False) -> Any:
        del delay_hours  # the job's backoff says it
        return await self._end(which, "moveToFailed", failure("no", stack="S"), claims_next=claims_next)

    async def snooze(self, which: int, delay_hours: float) -> Any:
        job = self.claimed[which]
        due_ms = self.now_ms + round(delay_hours * HOUR_MS)
        snoozed = await self._guarded(job.call("moveToDelayed", due_ms, job.fields["token"]))
        if snoozed[0]:
            self._wake(job.fields["queue"])
        return snoozed

    async def release(self, which: int) -> Any:
        job = self.claimed[which]
        released = await self._guarded(job.call("moveToWait", job.fields["token"]))
        if released[0]:  # beyond BullMQ, ours takes the start back and wakes others also for a job with a priority
            self._refund(job)
        return released

    async def extend(self, which: int) -> Any:
        job = self.claimed[which]
        return await job.call("extendLock", job.fields["token"], HOUR_MS) == 1

    async def progress(self, job_id: str, value: object) -> Any:
        return await self._changed(job_id, "updateProgress", value)

    async def log(self, job_id: str, *lines: str) -> Any:
        return all([await self._changed(job_id, "log", line) for line in lines])

    async def add_flow(self, parent: str, *children: str, on_failure: OnFailure, **terms: Any) -> Any:
        job = {"name": "send", "queueName": QUEUE, "data": {"to": "π"}, "opts": self._options(parent, Terms(**terms))}
        below = [
            {"name": "send", "queueName": CHILDREN, "data": {"to": "π"}, "opts": self._child(child, on_failure)}
            for child in children
        ]
        await self.flows.call("add", job | {"children": below})
        return [parent, *children]

    async def add_child(self, parent: str, child: str, *, on_failure: OnFailure) -> Any:
        family = {"parent": {"id": parent, "queue": f"{self.prefix}:{QUEUE}"}}
        options = self._child(child, on_failure) | family
        job = await self.queues[CHILDREN].call("add", "send", {"to": "π"}, options)
        return job.fields["id"]

    def _child(self, job_id: str, on_failure: OnFailure) -> dict[str, Any]:
        return self._options(job_id, Terms()) | {POLICIES[on_failure]: True}

    async def wait_for_children(self, which: int) -> Any:
        job = self.claimed[which]
        held, _ = await self._guarded(job.call("moveToWaitingChildren", job.fields["token"]))
        if held:  # beyond BullMQ, ours takes the start back, and its slot is free
            self._refund(job)
        return (held, None)

    async def remove_children(self, parent: str) -> Any:
        await self._changed(parent, "removeUnprocessedChildren")

    async def schedule(self, name: str, **when: Any) -> Any:
        template = {"name": "tick", "data": {"to": "π"}, "opts": {"attempts": when.pop("attempts", 1)}}
        await self.queue.call("upsertJobScheduler", name, self._repeat(**when), template)

    def _repeat(
        self,
        *,
        every_hours: float | None = None,
        cron: str | None = None,
        zone: str = "UTC",
        start_hours: float | None = None,
        end_hours: float | None = None,
        limit: int | None = None,
        immediate: bool = False,
    ) -> dict[str, Any]:
        terms = {
            "pattern": cron,
            "tz": None if cron is None else zone,
            "every": None if every_hours is None else round(every_hours * HOUR_MS),
            "startDate": None if start_hours is None else self.now_ms + round(start_hours * HOUR_MS),
            "endDate": None if end_hours is None else self.now_ms + round(end_hours * HOUR_MS),
            "limit": limit,
            "immediately": immediate or None,
        }
        return {name: value for name, value in terms.items() if value is not None}

    async def unschedule(self, name: str) -> Any:
        return await self.queue.call("removeJobScheduler", name)

    async def rescue(self) -> Any:
        return sorted(await self.node.run("worker => worker.backend.moveStalledJobsToWait()", self.workers[QUEUE]))

    async def promote(self, job_id: str) -> Any:
        return await self._changed(job_id, "promote")

    async def rerun(self, job_id: str) -> Any:
        return await self._changed(job_id, "retry", "failed", {"resetAttemptsMade": True, "resetAttemptsStarted": True})

    async def remove(self, job_id: str) -> Any:
        return bool(await self.queue.call("remove", job_id, {"removeChildren": False}))

    async def clean(self, state: str, *, hours: float, most: int) -> Any:
        return len(await self.queue.call("clean", round(hours * HOUR_MS), most, state))

    async def drain(self, *, delayed: bool) -> Any:
        await self.queue.call("drain", delayed)

    async def obliterate(self, *, force: bool) -> Any:
        try:
            await self.queue.call("obliterate", {"force": force})  # it pauses the queue first, ours wants that done
        except NodeError:
            return "jobs of it run"
        return "gone"

    async def pause(self, *, paused: bool) -> Any:
        if await self.queue.call("isPaused") is not paused:  # ours says nothing about what is so already
            await self.queue.call("pause" if paused else "resume")

    async def limit(self, jobs: int | None) -> Any:
        if jobs is None:
            await self.queue.call("removeGlobalRateLimit")
        else:
            await self.queue.call("setGlobalRateLimit", jobs, HOUR_MS)
        self._wake()

    async def concurrency(self, jobs: int | None) -> Any:
        if jobs is None:
            await self.queue.call("removeGlobalConcurrency")
        else:
            await self.queue.call("setGlobalConcurrency", jobs)
        self._wake()

    async def throttle(self, hours: float) -> Any:
        await self.queue.call("rateLimit", round(hours * HOUR_MS))

    def _refund(self, job: Made) -> None:
        queue = job.fields["queue"]
        self.client.hincrby(f"{self.prefix}:{queue}:{job.fields['id']}", "ats", -1)
        self._wake(queue)

    def _wake(self, queue: str = QUEUE) -> None:
        """What ours does beyond BullMQ, so that workers look at new terms."""
        self.client.zadd(f"{self.prefix}:{queue}:marker", {"0": 0})

    async def _end(self, which: int, method: str, first: Any, *, claims_next: bool) -> Any:
        job = self.claimed[which]
        ending = self.node.run(
            END, self.workers[job.fields["queue"]], job, method, first, job.fields["token"], claims_next
        )
        ended = await self._guarded(ending)
        if ended[0] and not claims_next:
            # The slot that is free now may be what other workers of a bounded queue wait for.
            self._wake(job.fields["queue"])
        return ended

    async def _guarded(self, call: Any) -> Any:
        """Whether the lease was held, and the next job; everything else that is thrown is an error of the test."""
        try:
            following = await call
        except NodeError as error:
            if not any(word in str(error) for word in NOT_HELD):
                raise
            return (False, None)
        return (True, self._note(following))

    async def _changed(self, job_id: str, method: str, *args: Any) -> bool:
        job = await self.node.run(
            "(queue, id) => bullmq.Job.fromId(queue, id).then(job => job ?? null)", self.queue, job_id
        )
        if job is None:
            return False
        try:
            await job.call(method, *args)
        except NodeError:
            return False
        return True

    def _note(self, claimed: Any) -> str | None:
        if not isinstance(claimed, Made):
            return None
        self.claimed.append(claimed)
        job_id: str = claimed.fields["id"]
        return job_id


def keep_as_node_says(rule: KeepRule) -> bool | dict[str, float]:
    """A keep rule as BullMQ's users write it."""
    if rule.count == 0:
        return True
    numbers = {"age": rule.age_seconds, "count": rule.count}
    return {name: value for name, value in numbers.items() if value is not None} or False


def same_as_node_says(same: Deduplication) -> dict[str, Any]:
    """A de-duplication as BullMQ's users write it."""
    option: dict[str, Any] = {"id": same.id}
    if same.ttl_seconds is not None:
        option["ttl"] = round(same.ttl_seconds * 1000)
    wanted = {"extend": same.extend, "replace": same.replace, "keepLastIfActive": same.keep_last_if_active}
    return option | {name: True for name, value in wanted.items() if value}
