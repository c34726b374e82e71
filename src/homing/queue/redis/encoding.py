"""How jobs and calls look to BullMQ's scripts: options in JSON and msgpack, and job hashes read back."""

import json
import math
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from homing.backoff import Backoff
from homing.errors import MissingExtraError
from homing.ids import JobId, LeaseToken
from homing.queue.job import ClaimedJob, Deduplication, KeepRule, Lease, NewJob
from homing.queue.port import ClaimRequest
from homing.trace import read_metadata, write_metadata

try:
    import msgpack
except ModuleNotFoundError as error:
    raise MissingExtraError("the Redis engine", "redis") from error

MARK_FIELD = "homing"


def pack(value: object) -> bytes:
    """Msgpack as the scripts' `cmsgpack` reads it."""
    packed = msgpack.packb(value, use_bin_type=True)
    assert isinstance(packed, bytes)  # noqa: S101 - msgpack has no types of its own
    return packed


def encodable(text: str) -> str:
    """The text with what UTF-8 cannot carry written as escapes: the message of an error may hold anything."""
    return text.encode(errors="backslashreplace").decode()


def milliseconds(seconds: float) -> int:
    """Whole milliseconds, rounded up: nothing runs early."""
    return math.ceil(round(seconds * 1000, 6))


# ── Adding ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def job_arguments(base: str, job: NewJob, delay_ms: int) -> tuple[bytes, str, bytes]:
    """ARGV of the add scripts: identity, data, options. `delay_ms` counts from the job's timestamp, as BullMQ's does."""
    same = None if job.deduplication is None else f"{base}de:{job.deduplication.id}"
    identity = [base, job.id, job.name, job.timestamp_ms, None, None, None, None, same]
    return pack(identity), job.data, pack(job_options(job, delay_ms))


def job_options(job: NewJob, delay_ms: int) -> dict[str, Any]:
    """The `opts` of a job's hash, in the words of BullMQ's own options."""
    options: dict[str, Any] = {
        "attempts": job.attempts,
        "removeOnComplete": keep_option(job.keep_completed),
        "removeOnFail": keep_option(job.keep_failed),
    }
    if job.backoff is not None:
        options["backoff"] = backoff_option(job.backoff)
    if delay_ms:
        options["delay"] = delay_ms
    if job.priority:
        options["priority"] = job.priority
    if job.lifo:
        options["lifo"] = True
    if job.deduplication is not None:
        options["de"] = deduplication_option(job.deduplication)
    if job.traceparent is not None and (metadata := write_metadata(job.traceparent)):
        options["tm"] = metadata  # BullMQ's telemetry: a Node worker that has it set up joins the trace
    return options


def deduplication_option(same: Deduplication) -> dict[str, Any]:
    """`deduplication` in BullMQ's words, without what is not asked for: its scripts take any value for a yes."""
    option: dict[str, Any] = {"id": same.id}
    if same.ttl_seconds is not None:
        option["ttl"] = milliseconds(same.ttl_seconds)
    wanted = {"extend": same.extend, "replace": same.replace, "keepLastIfActive": same.keep_last_if_active}
    return option | {name: True for name, value in wanted.items() if value}


def keep_option(rule: KeepRule) -> bool | dict[str, float]:
    """`removeOnComplete` or `removeOnFail` as Node reads it: `false` keeps for ever, `true` removes at once."""
    if rule.count == 0:
        return True
    return _keep_numbers(rule) or False


def keep_jobs(rule: KeepRule) -> dict[str, float]:
    """`keepJobs` of the finish script; a count of -1 keeps for ever."""
    return _keep_numbers(rule) or {"count": -1}


def _keep_numbers(rule: KeepRule) -> dict[str, float]:
    numbers: dict[str, float] = {}
    if rule.age_seconds is not None:
        numbers["age"] = int(rule.age_seconds) if rule.age_seconds == int(rule.age_seconds) else rule.age_seconds
    if rule.count is not None:
        numbers["count"] = rule.count
    return numbers


def backoff_option(backoff: Backoff) -> dict[str, Any]:
    """The backoff as BullMQ shows it. A capped one gets a type of its own: Node knows none with a ceiling, and a Node
    worker that shares the queue must supply that strategy instead of retrying ever later.
    """  # noqa: D205 - one thought
    option: dict[str, Any] = {"type": backoff.kind, "delay": milliseconds(backoff.delay_seconds)}
    if backoff.jitter:
        option["jitter"] = backoff.jitter
    if backoff.cap_seconds is not None:
        option |= {"type": "capped", "cap": milliseconds(backoff.cap_seconds)}
    return option


# ── Claiming ────────────────────────────────────────────────────────────────────────────────────────────────────────


def claim_options(request: ClaimRequest) -> dict[str, Any]:
    """The options under which a script leases the next job."""
    options: dict[str, Any] = {"token": request.token, "lockDuration": max(1, milliseconds(request.lease_seconds))}
    if request.limit is not None:
        duration = max(1, milliseconds(request.limit.seconds))
        options["limiter"] = {"max": request.limit.jobs, "duration": duration}
    if request.worker:
        options["name"] = request.worker
    return options


def read_claim(queue: str, job_id: bytes, flat: list[bytes], token: LeaseToken) -> ClaimedJob | None:
    """A leased job from the reply of a script; `None` for an id whose hash has no job in it.

    Any producer may have written the hash, so nothing in it is trusted to be well-formed.
    """
    fields = dict(zip(flat[::2], flat[1::2], strict=False))
    name = fields.get(b"name")
    if name is None:
        return None
    attempts, traceparent = _terms(fields.get(b"opts"))
    return ClaimedJob(
        lease=Lease(queue, JobId(_text(job_id)), token),
        name=_text(name),
        data=_text(fields.get(b"data", b"null")),
        timestamp_ms=_integer(fields.get(b"timestamp")),
        attempts=attempts,
        starts=_integer(fields.get(b"ats")),
        attempts_made=_integer(fields.get(b"atm")),
        stalls=_integer(fields.get(b"stc")),
        mark=_optional_text(fields.get(b"homing")),
        deferred_failure=_optional_text(fields.get(b"defa")),
        traceparent=traceparent,
    )


_USUAL_DIGITS = 15
"""A number this long is read without a detour through `float`, which could not change it."""


@lru_cache(maxsize=256)  # most jobs of a queue carry the same options
def _terms(options: bytes | None) -> tuple[int, str | None]:
    """The attempts and the traceparent in a job's options."""
    try:
        decoded = json.loads(options or b"{}")
    except (ValueError, RecursionError):
        decoded = None
    if not isinstance(decoded, dict):
        return 1, None
    omitted = decoded.get("omc")  # BullMQ's word for "this job is not to be joined"
    return _attempts(decoded.get("attempts")), None if omitted else read_metadata(decoded.get("tm"))


def _attempts(value: Any) -> int:
    try:
        return max(1, int(value))
    except (ValueError, TypeError, OverflowError):
        return 1  # absent, null or strange: one attempt, as BullMQ has it


def _integer(value: bytes | None) -> int:
    if not value:
        return 0
    try:
        return int(value) if len(value) <= _USUAL_DIGITS and value.isdigit() else int(float(value))
    except (ValueError, OverflowError):
        return 0


def _text(value: bytes) -> str:
    return value.decode("utf-8", "replace")


def _optional_text(value: bytes | None) -> str | None:
    return None if value is None else _text(value)


# ── Finishing ───────────────────────────────────────────────────────────────────────────────────────────────────────


def finish_options(job: ClaimedJob, keep: KeepRule, claim_next: ClaimRequest | None) -> bytes:
    """The options of the finish script. `nextToken` is ours: see the decision record on BullMQ's scripts."""
    options: dict[str, Any] = {} if claim_next is None else claim_options(claim_next)
    if claim_next is not None:
        options["nextToken"] = claim_next.token
    options |= {
        "token": job.lease.token,
        "keepJobs": keep_jobs(keep),
        "attempts": job.attempts,
        "attemptsMade": job.attempts_made,
        "maxMetricsSize": "",
    }
    return pack(options)


@lru_cache(maxsize=16)  # completed jobs all carry the same mark
def mark_update(mark: str | None) -> bytes:
    """The hash field that a completed job gets; empty for no mark."""
    return field_updates(mark)


def field_updates(mark: str | None = None, reason: str = "", stack: str = "", starts: int | None = None) -> bytes:
    """Hash fields that a script writes together with its move; empty when there are none."""
    flat = list(_updates(mark, reason, stack, starts))
    return pack(flat) if flat else b""


def _updates(mark: str | None, reason: str, stack: str, starts: int | None) -> Iterable[str]:
    if mark is not None:
        yield from (MARK_FIELD, mark)
    if reason:
        yield from ("failedReason", encodable(reason))
    if stack:
        yield from ("stacktrace", json.dumps([encodable(stack)], ensure_ascii=False))
    if starts is not None:
        yield from ("ats", str(starts))
