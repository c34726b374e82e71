"""The spans of work that runs for real: what follows from one order, what fails, what goes together, what a child process is told."""

import io
import json
import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import asyncpg
import pytest
from opentelemetry import trace as otel
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanKind, StatusCode
from sqlalchemy.ext.asyncio import AsyncSession

from homing import Event, Homing, PermanentError, RetryLater, Transaction, record
from homing.config.logs import configure_logging, log_context
from homing.config.settings import Settings
from homing.durations import milliseconds
from homing.trace import Trace, enter_trace
from tests.exporting import Exported, linked, set_up, traceparent_of
from tests.system import quick, running, with_sessions
from tests.waiting import until


class Placed(Event, topic="order.placed"):
    """An order."""

    number: int = 1


class Captured(Event, topic="payment.captured"):
    """What follows from it."""

    number: int = 1


@contextmanager
def logging_to(stream: io.StringIO) -> Iterator[None]:
    """Lines as a worker writes them; afterwards logging is as it was."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    configure_logging("INFO", "json", stream)
    try:
        yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)


@pytest.fixture
def exported(monkeypatch: pytest.MonkeyPatch) -> Exported:
    """The SDK of this test."""
    return set_up(monkeypatch)


def context_of(span: ReadableSpan) -> otel.SpanContext:
    """Its ids."""
    context: otel.SpanContext | None = span.context
    assert context is not None
    return context


def attributes_of(span: ReadableSpan) -> dict[str, Any]:
    """What it says."""
    return dict(span.attributes or {})


async def ended(exported: Exported, name: str, number: int = 1) -> list[ReadableSpan]:
    """The spans of this name, once there are as many: one that settles ends before its job does."""

    async def all_there() -> list[ReadableSpan]:
        spans = exported.all(name)
        return spans if len(spans) >= number else []

    found = await until(all_there)
    assert len(found) == number
    return found


def spans_with(attribute: str, exported: Exported, number: int) -> list[ReadableSpan]:
    """The runs, or the calls for many of them, once there are as many."""
    spans = [span for span in exported.all("process loyalty") if attribute in attributes_of(span)]
    return spans if len(spans) >= number else []


def assert_what_they_say(placed: Placed, processed: ReadableSpan, dispatched: ReadableSpan) -> None:
    """The attributes of a run and of the batch that brought its job: all of them, and no payload."""
    server = {key: value for key, value in attributes_of(processed).items() if key.startswith("server.")}
    assert server.keys() == {"server.address", "server.port"}
    job_id = f"{placed.event_id}.1.payments.capture"
    assert attributes_of(processed) == server | {
        "messaging.system": "homing",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": "payments",
        "messaging.message.id": job_id,
        "messaging.message.conversation_id": str(placed.event_id),
        "messaging.consumer.group.name": "payments.capture",
        "homing.topic": "order.placed",
        "homing.job.name": "capture",
        "homing.attempt": 1,
        "homing.generation": 1,
        "homing.engine": "redis",
        "homing.outcome": "completed",
    }
    assert attributes_of(dispatched) == server | {
        "messaging.system": "homing",
        "messaging.operation.name": "dispatch",
        "messaging.operation.type": "send",
        "messaging.destination.name": "payments",
        "messaging.batch.message_count": 1,
        "homing.engine": "redis",
    }


async def test_the_spans_of_one_order_lead_from_the_request_to_what_followed(
    settings: Settings, exported: Exported
) -> None:
    """Recorded beneath the request, dispatched and processed with links to that, and what the handler records is beneath its run."""
    app = Homing("shop")
    payments, loyalty = app.queue("payments"), app.queue("loyalty")

    @payments.handler("capture", on=Placed, at_least_once=True)
    async def capture(event: Placed) -> None:
        del event
        sql = await asyncpg.connect(settings.asyncpg_dsn)
        async with sql.transaction():
            await record(sql, Captured())
        await sql.close()

    @loyalty.handler("award", on=Captured, at_least_once=True)
    async def award(event: Captured) -> None:
        del event

    placed = Placed()
    async with running(app, quick(settings)) as system:
        with exported.provider.get_tracer("web").start_as_current_span("POST /orders"):
            await system.record(placed)
        await system.settled()
        await ended(exported, "process loyalty")
    request, created = exported.one("POST /orders"), exported.one("record order.placed")
    dispatched, processed = exported.one("dispatch payments"), exported.one("process payments")
    followed, awarded = exported.one("record payment.captured"), exported.one("process loyalty")
    assert [span.parent and span.parent.span_id for span in (created, dispatched, processed, followed, awarded)] == [
        context_of(request).span_id,
        None,
        None,
        context_of(processed).span_id,
        None,
    ]
    assert [linked(span) for span in (dispatched, processed, awarded)] == [
        [traceparent_of(created)],
        [traceparent_of(created)],
        [traceparent_of(followed)],
    ]
    assert len({context_of(span).trace_id for span in (created, dispatched, processed, awarded)}) == 4
    assert (dispatched.kind, processed.kind) == (SpanKind.CLIENT, SpanKind.CONSUMER)
    assert_what_they_say(placed, processed, dispatched)
    settled = exported.one("settle payments")
    assert (settled.kind, settled.parent, linked(settled)) == (SpanKind.CLIENT, None, [traceparent_of(created)])
    assert attributes_of(settled)["messaging.batch.message_count"] == 1


async def test_a_run_that_fails_is_a_failed_span_beneath_its_cause(settings: Settings, exported: Exported) -> None:
    """With the relation `parent` runs are children of what created their event; a failure has status and class, to be put off has none."""
    app = Homing("shop")
    payments = app.queue("payments")
    seen: list[int] = []

    @payments.handler("capture", on=Placed, at_least_once=True)
    async def capture(event: Placed) -> None:
        seen.append(event.number)
        if len(seen) == 1:
            raise RetryLater(milliseconds(1), "not yet")
        raise PermanentError("card 4000 0000 was refused")

    async with running(app, quick(settings, trace_relation="parent")) as system:
        await system.record(Placed())
        await system.settled()
        put_off, refused = await ended(exported, "process payments", 2)
    created = exported.one("record order.placed")
    assert [span.parent and span.parent.span_id for span in (put_off, refused)] == [context_of(created).span_id] * 2
    assert linked(refused) == []
    assert (put_off.status.status_code, attributes_of(put_off)["homing.outcome"]) == (StatusCode.UNSET, "snoozed")
    assert refused.status.status_code is StatusCode.ERROR
    assert attributes_of(refused)["homing.outcome"] == "dead"
    assert attributes_of(refused)["error.type"] == "homing.errors.PermanentError"
    assert "4000" not in refused.to_json()


async def test_a_call_for_many_runs_is_a_span_of_its_own(settings: Settings, exported: Exported) -> None:
    """It links to what created each event, what its handler records is beneath it, and each run has its own span beside it."""
    app = with_sessions(Homing("shop"), settings)
    loyalty = app.queue("loyalty")
    told: list[Mapping[str, object]] = []

    @loyalty.handler("count", on=Placed, batch=10)
    async def count(events: Sequence[Placed], tx: Transaction[AsyncSession]) -> None:
        told.append(log_context.get())
        await record(tx, *(Captured(number=event.number) for event in events))

    async with running(app, quick(settings), worker=False) as system:
        await system.record(*(Placed(number=number) for number in range(5)))

        async def all_wait() -> bool:
            return (await system.engine.counts("loyalty")).waiting == 5

        await until(all_wait)
        async with running(app, quick(settings), relay=False):
            runs = await until(lambda: spans_with("messaging.message.id", exported, 5))
    batches = spans_with("messaging.batch.message_count", exported, 1)
    assert batches
    created = {traceparent_of(span) for span in exported.all("record order.placed")}
    assert Counter(len(linked(span)) for span in runs) == {1: 5}
    assert {link for span in runs for link in linked(span)} == created
    parents = Counter(span.parent and span.parent.span_id for span in exported.all("record payment.captured"))
    for batch in batches:
        assert set(linked(batch)) <= created
        assert len(linked(batch)) == attributes_of(batch)["messaging.batch.message_count"]
        assert parents[context_of(batch).span_id] == len(linked(batch))
    assert parents.total() == 5
    shared = {context_of(batch).span_id for batch in batches}
    for fields in told:
        if int(str(fields["span_id"]), 16) in shared:
            assert fields.keys() == {"app", "worker", "queue", "job", "trace_id", "consumer", "topic", "span_id"}


async def test_runs_of_a_batch_that_failed_are_themselves_again(settings: Settings, exported: Exported) -> None:
    """Run one by one, each has its own log fields, and what it records is beneath its own span."""
    app = with_sessions(Homing("shop"), settings)
    told: list[tuple[str, str]] = []

    @app.queue("loyalty").handler("count", on=Placed, batch=10)
    async def count(events: Sequence[Placed], tx: Transaction[AsyncSession]) -> None:
        if len(events) > 1:
            raise PermanentError("not together")
        await record(tx, Captured(number=events[0].number))
        told.append((str(events[0].event_id), str(log_context.get()["event_id"])))

    async with running(app, quick(settings), worker=False) as system:
        await system.record(*(Placed(number=number) for number in range(4)))

        async def all_wait() -> bool:
            return (await system.engine.counts("loyalty")).waiting == 4

        await until(all_wait)
        async with running(app, quick(settings), relay=False):
            runs = await until(lambda: spans_with("messaging.message.id", exported, 4))
    assert len(told) == 4
    assert [asked for asked, _ in told] == [said for _, said in told]
    own = [context_of(span).span_id for span in runs]
    assert Counter(own) == Counter(
        span.parent and span.parent.span_id for span in exported.all("record payment.captured")
    )
    assert {span.status.status_code for span in runs} == {StatusCode.UNSET}


async def test_lines_of_a_run_say_what_they_belong_to(settings: Settings, exported: Exported) -> None:
    """On the event loop, in a thread and when the run has ended: the request's trace, the run's span, and who ran it."""
    app = Homing("shop")
    payments = app.queue("payments")
    told: dict[str, Mapping[str, object]] = {}

    @payments.handler("capture", on=Placed, at_least_once=True)
    async def capture(event: Placed) -> None:
        told["loop"] = log_context.get()

    @payments.handler("print", on=Placed, at_least_once=True)
    def print_it(event: Placed) -> None:
        told["thread"] = log_context.get()
        raise PermanentError("no paper")

    lines = io.StringIO()
    placed = Placed()
    with logging_to(lines):
        async with running(app, quick(settings)) as system:
            with enter_trace(Trace(trace_id="req-1")):
                await system.record(placed)
            await system.settled()
            spans = await ended(exported, "process payments", 2)
    by_job = {str(attributes_of(span)["homing.job.name"]): f"{context_of(span).span_id:016x}" for span in spans}
    expected = {
        "app": "shop",
        "queue": "payments",
        "attempt": 1,
        "trace_id": "req-1",
        "event_id": str(placed.event_id),
        "topic": "order.placed",
    }
    written = {line["job"]: line for line in map(json.loads, lines.getvalue().splitlines()) if "outcome" in line}
    for where, job, level, outcome in (
        ("loop", "capture", "info", "completed"),
        ("thread", "print", "warning", "dead"),
    ):
        consumer = f"payments.{job}"
        mine = {"job": job, "job_id": f"{placed.event_id}.1.{consumer}", "consumer": consumer, "span_id": by_job[job]}
        assert {key: value for key, value in told[where].items() if key != "worker"} == expected | mine
        assert written[job].items() >= (expected | mine | {"level": level, "outcome": outcome}).items()
        assert {"duration_s", "age_s", "worker"} <= written[job].keys()
