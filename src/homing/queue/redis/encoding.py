"""How jobs and calls look to BullMQ's scripts: options in JSON and msgpack, and job hashes read back."""

import json
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from homing.errors import MissingExtraError
from homing.ids import JobId, LeaseToken
from homing.queue import template
from homing.queue.job import ClaimedJob, Deduplication, KeepRule, Lease, NewJob
from homing.queue.parent import OnFailure, Parent
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
    return text if text.isascii() else text.encode(errors="backslashreplace").decode()


milliseconds = template.milliseconds


# ── Adding ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def job_arguments(base: str, job: NewJob, delay_ms: int) -> tuple[bytes, str, bytes]:
    """ARGV of the add scripts: identity, data, options. `delay_ms` counts from the job's timestamp, as BullMQ's does."""
    same = None if job.deduplication is None else f"{base}de:{job.deduplication.id}"
    options = job_options(job, delay_ms)
    parent_key = children_key = record = None
    if job.parent is not None:
        whole = f"{base.removesuffix(':').rpartition(':')[0]}:{job.parent.job.queue}"
        parent_key = f"{whole}:{job.parent.job.id}"
        children_key, record = f"{parent_key}:dependencies", parent_record(whole, job.parent)
        options |= {"parent": {"id": job.parent.job.id, "queue": whole}, **means(job.parent.on_failure)}
    identity = [base, job.id, job.name, job.timestamp_ms, parent_key, children_key, record, None, same]
    return pack(identity), job.data, pack(options)


def parent_record(whole: str, parent: Parent) -> dict[str, Any]:
    """What a child keeps of its parent: where it is, and what the child's death means to it."""
    return {"id": parent.job.id, "queueKey": whole, **means(parent.on_failure)}


def record_text(whole: str, parent: Parent) -> str:
    """The same as it lies in the child's hash."""
    return json.dumps(parent_record(whole, parent), ensure_ascii=False, separators=(",", ":"))


def means(on_failure: OnFailure) -> dict[str, bool]:
    """What a death means, in BullMQ's word for it."""
    return {_MEANS[on_failure]: True}


_MEANS: dict[OnFailure, str] = {"fail": "fpof", "continue": "cpof", "ignore": "idof", "remove": "rdof"}


def job_options(job: NewJob, delay_ms: int) -> dict[str, Any]:
    """The `opts` of a job's hash, in the words of BullMQ's own options."""
    options: dict[str, Any] = {
        "attempts": job.attempts,
        "removeOnComplete": template.keep_option(job.keep_completed),
        "removeOnFail": template.keep_option(job.keep_failed),
    }
    if job.backoff is not None:
        options["backoff"] = template.backoff_option(job.backoff)
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


def keep_jobs(rule: KeepRule) -> dict[str, float]:
    """`keepJobs` of the finish script; a count of -1 keeps for ever."""
    return template.keep_numbers(rule) or {"count": -1}


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


CLAIMED_FIELDS = (b"name", b"data", b"opts", b"timestamp", b"ats", b"atm", b"stc", b"homing", b"defa")
"""What is read of a leased job. Our own script tells just these, after the job's id."""


def read_claim(queue: str, job_id: bytes, flat: list[bytes], token: LeaseToken) -> ClaimedJob | None:
    """A leased job from the reply of an official script; `None` for an id whose hash has no job in it."""
    fields = dict(zip(flat[::2], flat[1::2], strict=False))
    return read_lease(queue, [job_id, *map(fields.get, CLAIMED_FIELDS)], token)


def read_lease(queue: str, values: list[bytes | None], token: LeaseToken) -> ClaimedJob | None:
    """The same from the reply of our own script.

    Any producer may have written the hash, so nothing in it is trusted to be well-formed.
    """
    job_id, name, data, opts, timestamp, starts, made, stalls, mark, deferred = values
    if name is None or job_id is None:
        return None
    attempts, traceparent = _terms(opts)
    return ClaimedJob(
        lease=Lease(queue, JobId(_text(job_id)), token),
        name=_name(name),
        data="null" if data is None else _text(data),
        timestamp_ms=_integer(timestamp),
        attempts=attempts,
        starts=_count(starts),
        attempts_made=_count(made),
        stalls=_count(stalls),
        mark=_optional_text(mark),
        deferred_failure=_optional_text(deferred),
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


_count = lru_cache(maxsize=256)(_integer)  # few values, read three times a job
_name = lru_cache(maxsize=256)(_text)


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
