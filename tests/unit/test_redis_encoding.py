"""Options as BullMQ writes and reads them."""

import json

import msgpack
import pytest

from homing.backoff import Backoff
from homing.ids import JobId, LeaseToken
from homing.queue import template
from homing.queue.job import ClaimedJob, KeepRule, Lease, NewJob
from homing.queue.port import ClaimRequest, Limit
from homing.queue.redis import encoding


@pytest.mark.parametrize(
    ("rule", "node", "script"),
    [
        (KeepRule(), False, {"count": -1}),
        (KeepRule(count=0), True, {"count": 0}),
        (KeepRule(count=0, age_seconds=5), True, {"age": 5, "count": 0}),
        (KeepRule(count=9), {"count": 9}, {"count": 9}),
        (KeepRule(age_seconds=3600.0), {"age": 3600}, {"age": 3600}),
        (KeepRule(age_seconds=0.5, count=2), {"age": 0.5, "count": 2}, {"age": 0.5, "count": 2}),
    ],
)
def test_keep_rules_in_both_forms(rule: KeepRule, node: object, script: object) -> None:
    """Node's option and the finish script's argument say the same."""
    assert template.keep_option(rule) == node
    assert encoding.keep_jobs(rule) == script


@pytest.mark.parametrize(
    ("backoff", "option"),
    [
        (Backoff(kind="fixed", delay_seconds=2), {"type": "fixed", "delay": 2000}),
        (
            Backoff(kind="exponential", delay_seconds=0.25, jitter=0.5),
            {"type": "exponential", "delay": 250, "jitter": 0.5},
        ),
        (
            Backoff(kind="exponential", delay_seconds=1, jitter=0.5, cap_seconds=60),
            {"type": "capped", "delay": 1000, "jitter": 0.5, "cap": 60_000},
        ),
    ],
)
def test_backoffs_as_node_shows_them(backoff: Backoff, option: object) -> None:
    """A ceiling, which Node does not know, gets a type of its own."""
    assert template.backoff_option(backoff) == option


@pytest.mark.parametrize(("seconds", "expected"), [(0, 0), (0.001, 1), (0.0004, 1), (1.1, 1100), (0.3, 300), (2, 2000)])
def test_milliseconds_are_never_early(seconds: float, expected: int) -> None:
    """Fractions are rounded up, binary noise is not."""
    assert encoding.milliseconds(seconds) == expected


def test_a_claim_names_its_terms() -> None:
    """Token, lease, limit and worker reach the script; what is not asked for is left out."""
    token = LeaseToken("t")
    assert encoding.claim_options(ClaimRequest(token, 30.0)) == {"token": "t", "lockDuration": 30_000}
    full = encoding.claim_options(ClaimRequest(token, 30.0, Limit(10, 1.5), "w"))
    assert full == {"token": "t", "lockDuration": 30_000, "limiter": {"max": 10, "duration": 1500}, "name": "w"}


def test_a_finish_keeps_the_two_tokens_apart() -> None:
    """The finished job is proven with its own token, the next one is leased with the fresh one."""
    job = ClaimedJob(
        lease=Lease("q", JobId("a"), LeaseToken("old")),
        name="n",
        data="{}",
        timestamp_ms=1,
        attempts=3,
        starts=1,
        attempts_made=1,
    )
    packed = encoding.finish_options(job, KeepRule(count=1), ClaimRequest(LeaseToken("new"), 5.0))
    assert msgpack.unpackb(packed) == {
        "token": "old",
        "nextToken": "new",
        "lockDuration": 5000,
        "keepJobs": {"count": 1},
        "attempts": 3,
        "attemptsMade": 1,
        "maxMetricsSize": "",
    }


def test_field_updates_are_flat_and_clean() -> None:
    """Only what is given is written, and never text that UTF-8 cannot carry."""
    assert encoding.field_updates() == b""
    flat = msgpack.unpackb(encoding.field_updates("done", "bad \udc80", "at \ud800"))
    assert flat == ["homing", "done", "failedReason", "bad \\udc80", "stacktrace", '["at \\\\ud800"]']


FAR = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.mark.parametrize(
    ("traceparent", "metadata"), [(None, None), ("nonsense", None), (FAR, json.dumps({"traceparent": FAR}))]
)
def test_a_job_carries_what_created_it_as_telemetry(traceparent: str | None, metadata: str | None) -> None:
    """`tm` is BullMQ's place for propagation headers in JSON; nothing that is no traceparent gets there."""
    job = NewJob(id=JobId("a"), name="n", data="{}", timestamp_ms=1, traceparent=traceparent)
    written = encoding.job_options(job, 0).get("tm")
    assert (written and json.loads(written)) == (metadata and json.loads(metadata))


@pytest.mark.parametrize(
    ("options", "attempts", "traceparent"),
    [
        ({"attempts": 3, "tm": json.dumps({"traceparent": FAR, "baggage": "x"})}, 3, FAR),
        ({"attempts": 3, "tm": json.dumps({"traceparent": FAR}), "omc": True}, 3, None),
        ({"attempts": None, "tm": {"traceparent": FAR}}, 1, None),
        ({"tm": "x"}, 1, None),
        ([], 1, None),
    ],
)
def test_what_other_producers_say_of_a_trace_is_read(options: object, attempts: int, traceparent: str | None) -> None:
    """A Node producer's telemetry is taken, unless it says not to join; junk is no trace and costs no attempt."""
    flat = [b"name", b"n", b"opts", json.dumps(options).encode()]
    claimed = encoding.read_claim("q", b"1", flat, LeaseToken("t"))
    assert claimed is not None
    assert (claimed.attempts, claimed.traceparent) == (attempts, traceparent)
