"""Which jobs no engine takes: pure, and the same for every engine, so that a test never admits what Redis would not."""

import math

from homing.ids import DeliveryKey
from homing.queue.job import Deduplication, NewJob

LONGEST_ID = 500
LOWEST_PRIORITY = 2_097_151
SHORTEST_TTL_SECONDS = 0.001

# A job lives under the same key prefix as its queue's own structures; an id that equals one of their names would
# be taken for an existing job and the job would be lost without a word.
RESERVED_IDS = frozenset(
    {"active", "completed", "de", "delayed", "dn", "events", "failed", "id", "limiter", "marker", "meta", "paused"}
    | {"pc", "prioritized", "repeat", "stalled", "stalled-check", "wait", "waiting-children"}
)


def refusal(job: NewJob) -> str | None:
    """Why the job cannot be added, or `None` when it can."""
    return _refused_id(job.id) or _refused_terms(job) or _refused_deduplication(job) or _refused_text(job)


def can_be_job(job_id: str) -> bool:
    """Whether a job may have this id, whoever added it: else it names another key of its queue, or no key at all.

    Of ids with colons BullMQ has those of scheduled runs, `repeat:<schedule>:<time>`; a job's lock and logs are named likewise.
    """
    try:
        job_id.encode()
    except UnicodeEncodeError:
        return False
    if ":" not in job_id:
        return bool(job_id) and job_id not in RESERVED_IDS
    return job_id.startswith("repeat:") and job_id.rpartition(":")[2].isdecimal()


def _refused_id(job_id: str) -> str | None:
    if not job_id or len(job_id) > LONGEST_ID:
        return f"a job id has 1 to {LONGEST_ID} characters, not {len(job_id)}"
    if ":" in job_id:
        return f"a job id has no colon, unlike {job_id!r}"
    if job_id.removeprefix("-").isdecimal():
        return f"a job id is no integer, because BullMQ counts its own ids, unlike {job_id!r}"
    if job_id in RESERVED_IDS:
        return f"a job id is none of the queue's own key names, unlike {job_id!r}"
    return None


def _refused_terms(job: NewJob) -> str | None:
    if not 0 <= job.priority <= LOWEST_PRIORITY:
        return f"a priority lies between 0 and {LOWEST_PRIORITY}, unlike {job.priority!r}"
    if not (math.isfinite(job.delay_seconds) and job.delay_seconds >= 0):
        return f"a delay is a finite number of seconds ≥ 0, not {job.delay_seconds!r}"
    if job.attempts < 1:
        return f"a job has at least one attempt, not {job.attempts!r}"
    if job.lifo and (job.priority or job.delay_seconds):
        return "a job with lifo=True waits in the plain line, so it has neither a priority nor a delay: leave one of them out"
    return None


def _refused_deduplication(job: NewJob) -> str | None:
    """A delivery that gave way to another job would be dispatched for ever: its row knows nothing of that job."""
    same = job.deduplication
    if same is None:
        return None
    if DeliveryKey.parse(job.id) is not None:
        return f"the job of a delivery is never de-duplicated, unlike {job.id!r}: its consumer is called once anyway"
    if not 0 < len(same.id) <= LONGEST_ID:
        return f"a de-duplication id has 1 to {LONGEST_ID} characters, not {len(same.id)}"
    return _refused_time(same)


def _refused_time(same: Deduplication) -> str | None:
    ttl = same.ttl_seconds
    if ttl is not None and not (math.isfinite(ttl) and ttl >= SHORTEST_TTL_SECONDS):
        return f"a de-duplication lasts for a finite time of at least {SHORTEST_TTL_SECONDS} seconds, not {ttl!r}"
    if ttl is None and same.extend:
        return "a de-duplication with extend=True lets its ttl begin anew, and has none: give it a ttl"
    if ttl is not None and same.keep_last_if_active:
        return "a de-duplication with keep_last_if_active=True lasts as long as its job, whatever its ttl: leave the ttl out"
    return None


def _refused_text(job: NewJob) -> str | None:
    same = "" if job.deduplication is None else job.deduplication.id
    for what, text in (("id", job.id), ("name", job.name), ("data", job.data), ("de-duplication id", same)):
        try:
            text.encode()
        except UnicodeEncodeError as error:
            return f"the {what} of a job must be valid Unicode: {error.reason} at {error.start}"
    return None
