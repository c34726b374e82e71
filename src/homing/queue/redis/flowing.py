"""Flows: a tree of jobs is added in one transaction, and what its jobs are to each other is read back."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from homing.ids import JobId
from homing.queue.browse import read_cursor, write_cursor
from homing.queue.flow_admission import refused_flow
from homing.queue.flows import SOON_SECONDS, Dependencies, FlowJob, Reviewed
from homing.queue.job import ClaimedJob
from homing.queue.parent import JobRef, Parent
from homing.queue.port import Accepted, AddResult, ClaimRequest, Finished, Refused
from homing.queue.redis import encoding
from homing.queue.redis.adding import RedisAdding, read_add
from homing.queue.redis.keys import QueueKeys
from homing.queue.redis.leasing import RedisLeasing
from homing.queue.redis.link import Word
from homing.queue.redis.looking import RedisLooking
from homing.queue.redis.scripts import ScriptCall, own_script, run
from homing.queue.redis.transactions import run_atomically

_NO_PARENT = -5
_OTHER_PARENT = -7
_FAILED_CHILDREN = -9
_NOTHING_PENDING = 1
MOST_REVIEWED_CHILDREN = 1_000
"""Of one parent, at one look: more of them are looked at the next time."""


class RedisFlowing(RedisAdding, RedisLeasing, RedisLooking):
    """The part of the engine that knows families."""

    async def add_flow(self, jobs: Sequence[FlowJob]) -> list[AddResult]:
        """Add jobs and what they are to each other in one MULTI, as BullMQ does; those that exist are attached at its end."""
        refused = refused_flow(jobs)
        if refused is not None:
            return refused
        existing = await self._named(jobs)
        fresh = [one for one, exists in zip(jobs, existing, strict=True) if not exists]
        families = list(self._families(jobs, existing))
        calls = [*(self._add_node(one) for one in fresh), *(call for _, call in families)]
        replies = await run_atomically(self._main, calls)
        answers = {one.ref: read_add(one.job, reply) for one, reply in zip(fresh, replies, strict=False)}
        for (children, _), reply in zip(families, replies[len(fresh) :], strict=True):
            answers |= _read_attached(children, reply)
        return [answers.get(one.ref, Accepted.ACCEPTED) for one in jobs]

    async def wait_for_children(self, job: ClaimedJob, *, claim_next: ClaimRequest | None) -> Finished:
        """Move a running job among those that wait for their children."""
        keys, job_id = self._keys(job.lease.queue), job.lease.job_id
        names = (keys.part(job_id), keys.lock(job_id))
        await run(self._main, own_script("refundStart-2"), names, job.lease.token, job.starts - 1)
        arguments = (job.lease.token, "", self._now_ms(), job_id, keys.base)
        script = self._scripts.move_to_waiting_children
        reply = await run(self._main, script, keys.move_to_waiting_children(job_id), *arguments)
        if reply in (_NOTHING_PENDING, _FAILED_CHILDREN):
            return await self.retry(job, SOON_SECONDS, spend_attempt=False, reason="", stack="", claim_next=claim_next)
        return await self._then_claim(job, self._held(job, reply), claim_next)

    async def family(self, queue: str, job_id: JobId, *, most: int | None = None) -> Dependencies:
        """Parent and children of a job; of many children a scan that is cut short reads some."""
        keys = self._keys(queue)
        key = keys.part(job_id)
        pending, completed, forgiven, fatal = (
            f"{key}:{name}" for name in ("dependencies", "processed", "failed", "unsuccessful")
        )
        counts = [("SCARD", pending), ("HLEN", completed), ("HLEN", forgiven), ("ZCARD", fatal)]
        last = -1 if most is None else most - 1
        parent, failing, *numbers = await self._together(
            ("HGET", key, "parentKey"), ("ZRANGE", fatal, 0, last), *counts
        )
        members = await self._members(pending, most)
        results, reasons = await self._pairs(completed, most), await self._pairs(forgiven, most)
        return Dependencies(
            parent=None if not parent else keys.ref(parent),
            pending=tuple(keys.ref(member) for member in members),
            completed={keys.ref(child): _text(result) for child, result in results},
            forgiven={keys.ref(child): _text(reason) for child, reason in reasons},
            fatal=tuple(keys.ref(child) for child in failing),
            pending_count=numbers[0],
            completed_count=numbers[1],
            forgiven_count=numbers[2],
            fatal_count=numbers[3],
        )

    async def review_parents(self, queue: str, *, after: str | None = None, most: int = 100) -> Reviewed:
        """Attach to each parent of a page the children that it waits for already: what is not there, or has ended, stops counting."""
        keys = self._keys(queue)
        rank, last = (-1, JobId("")) if after is None else read_cursor(after)
        waiting = keys.part("waiting-children")
        found = None if after is None else await self._main.call("ZRANK", waiting, last)
        start = rank if found is None and after is not None else (-1 if found is None else found) + 1
        flat = await self._main.call("ZRANGE", waiting, start, start + most - 1, "WITHSCORES")
        since_ms = {JobId(_text(raw)): float(score) for raw, score in zip(flat[::2], flat[1::2], strict=False)}
        goes_on = {job_id: await self._review(keys, job_id) for job_id in since_ms}
        now_ms = self._now_ms()
        return Reviewed(
            after=write_cursor(start + most - 1, list(since_ms)[-1]) if len(since_ms) == most else None,
            released=tuple(job_id for job_id, goes in goes_on.items() if goes),
            waiting={job_id: (now_ms - since_ms[job_id]) / 1000 for job_id, goes in goes_on.items() if not goes},
        )

    async def release_parent(self, queue: str, job_id: JobId, *, as_bereft: bool = False) -> bool:
        """Let a job that waits for children wait to be claimed instead."""
        keys = self._keys(queue)
        names = (keys.part("waiting-children"), keys.part(job_id))
        return bool(await run(self._main, own_script("releaseParent-2"), names, job_id, keys.whole, int(as_bereft)))

    async def remove_children(self, queue: str, job_id: JobId) -> None:
        """Remove those descendants of a job that have not begun."""
        keys = self._keys(queue)
        names = (keys.part(job_id), keys.meta)
        await run(self._main, self._scripts.remove_unprocessed_children, names, keys.base, job_id)

    # ── Inside ──────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _named(self, jobs: Sequence[FlowJob]) -> list[bool]:
        """Which of them have a job already. A ghost is none: it is taken away, or the add would take it for one."""
        keys = [self._keys(one.queue).part(one.job.id) for one in jobs]
        found = await self._together(*(("HEXISTS", key, "name") for key in keys), *(("EXISTS", key) for key in keys))
        named, there = found[: len(jobs)], found[len(jobs) :]
        for one, is_named, is_there in zip(jobs, named, there, strict=True):
            if is_there and not is_named:
                await self.remove(one.queue, one.job.id)
        return [bool(is_named) for is_named in named]

    def _add_node(self, one: FlowJob) -> ScriptCall:
        keys = self._keys(one.queue)
        if not one.waits:
            return self._add_call(keys, one.job)
        delay_ms = encoding.milliseconds(one.job.delay_seconds)  # of a parent it counts from when it waits no more
        return ScriptCall(
            self._scripts.add_parent, keys.add_parent, encoding.job_arguments(keys.base, one.job, delay_ms)
        )

    def _families(
        self, jobs: Sequence[FlowJob], existing: Sequence[bool]
    ) -> Iterator[tuple[list[FlowJob], ScriptCall]]:
        """For each parent, its children that exist, and the call that attaches them; also where there are none, for it may be done waiting."""
        by_parent: dict[JobRef, list[FlowJob]] = defaultdict(list)
        for one, exists in zip(jobs, existing, strict=True):
            if one.job.parent is not None:
                by_parent[one.job.parent.job] += [one] if exists else []
        for parent, children in by_parent.items():
            words = [word for child in children for word in self._child_words(child)]
            yield children, self._attach_call(parent, words)

    def _child_words(self, child: FlowJob) -> tuple[Word, ...]:
        parent = child.job.parent
        record = "" if parent is None else self._record(parent)
        keys = self._keys(child.queue)
        return (keys.part(child.job.id), keys.base, child.job.id, record)

    def _record(self, parent: Parent) -> str:
        return encoding.record_text(self._keys(parent.job.queue).whole, parent)

    def _attach_call(self, parent: JobRef, words: Sequence[Word]) -> ScriptCall:
        keys = self._keys(parent.queue)
        arguments = (parent.id, keys.whole, self._now_ms(), *words)
        return ScriptCall(own_script("attachChildren-1"), (keys.part(parent.id),), arguments)

    async def _review(self, keys: QueueKeys, job_id: JobId) -> bool:
        """Whether the job went on; children under other prefixes are left alone."""
        pending = await self._members(f"{keys.part(job_id)}:dependencies", MOST_REVIEWED_CHILDREN)
        words: list[Word] = []
        for key in pending:
            ref = keys.ref(key)
            if ref.queue:
                words += (key, self._keys(ref.queue).base, ref.id, "")
        call = self._attach_call(JobRef(keys.queue, job_id), words)
        reply = await run(self._main, call.script, call.keys, *call.arguments)
        return isinstance(reply, list) and reply[0] == 1

    async def _members(self, key: str, most: int | None) -> list[bytes]:
        if most is None:
            return list(await self._main.call("SMEMBERS", key))
        return list(await self._scan("SSCAN", key, most))[:most]

    async def _pairs(self, key: str, most: int | None) -> list[tuple[bytes, bytes]]:
        words = await self._main.call("HGETALL", key) if most is None else await self._scan("HSCAN", key, most)
        flat = list(words)
        return list(zip(flat[::2], flat[1::2], strict=False))[:most]

    async def _scan(self, command: str, key: str, most: int) -> list[bytes]:
        _, found = await self._main.call(command, key, 0, "COUNT", most)
        return list(found)


def _read_attached(children: Sequence[FlowJob], reply: Any) -> Mapping[JobRef, AddResult]:
    if isinstance(reply, BaseException):
        raise reply
    if reply == _NO_PARENT:
        return {child.ref: Refused(f"the parent of {child.job.id} is not there", for_good=False) for child in children}
    return {
        child.ref: Refused(f"another parent waits for the job {child.job.id}", for_good=False)
        for child, answer in zip(children, reply[1], strict=True)
        if answer == _OTHER_PARENT
    }


def _text(value: bytes) -> str:
    return value.decode(errors="replace")
