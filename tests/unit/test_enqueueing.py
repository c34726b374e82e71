"""What is checked before a job is enqueued: nothing is sent for a mistake, and each is named with its remedy."""

import json
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from homing import Deduplicate, Event, Homing, Keep, Retry
from homing.client import make_job, read_options
from homing.durations import seconds
from homing.errors import EnqueueError, PayloadError
from homing.events import unseal
from homing.queue.job import Deduplication
from homing.trace import Trace, enter_trace

DELIVERY = "01890000-0000-7000-8000-000000000001.1.mail.send"
PARENT = "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01"

app = Homing("enqueueing", retry=Retry(attempts=3), keep_completed=Keep(count=7))
mail = app.queue("mail")
others = app.queue("others")
POLICY = mail.options.policy()


class Asked(Event, topic="enqueueing.asked", unrouted=True, version=2):
    order_id: int


@mail.handler("send", on=Asked, at_least_once=True)
async def send(event: Asked) -> None:
    """Nobody calls it here."""


def test_an_event_travels_in_the_envelope_that_handlers_read() -> None:
    """Its id names the job and the fact, the trace goes along, and the terms are those of its kind."""
    event = Asked(order_id=7)
    with enter_trace(Trace(trace_id="t-1", traceparent=PARENT)):
        job = make_job("send", event, read_options({}), POLICY)
    envelope = unseal(job.data)
    assert (envelope.event_id, envelope.payload, envelope.version) == (event.event_id, {"orderId": 7}, 2)
    assert (envelope.trace_id, envelope.traceparent, envelope.delivery) == ("t-1", PARENT, None)
    assert (job.id, job.traceparent) == (f"send.{event.event_id}", PARENT)
    assert (job.attempts, job.keep_completed.count) == (3, 7)
    again = make_job("send", event, read_options({}), POLICY)
    assert (again.id, unseal(again.data).trace_id, again.traceparent) == (job.id, None, None)


def test_an_object_for_others_travels_as_it_is() -> None:
    """A worker of another system reads what was given, under an id that nobody else has."""
    first, second = (make_job("resize:small", {"b": 1, "a": [None]}, read_options({}), POLICY) for _ in range(2))
    assert json.loads(first.data) == {"b": 1, "a": [None]}
    assert first.id != second.id


def test_options_become_the_terms_of_the_job() -> None:
    """Each option has its place, and durations are seconds."""
    same = Deduplicate("order-7", ttl=seconds(5), extend=True, replace=True)
    options: dict[str, Any] = {"id": UUID(int=7), "delay": timedelta(minutes=1), "priority": 3, "deduplicate": same}
    job = make_job("send", {}, read_options(options), POLICY)
    assert (job.id, job.delay_seconds, job.priority) == (str(UUID(int=7)), 60.0, 3)
    assert job.deduplication == Deduplication(id="order-7", ttl_seconds=5.0, extend=True, replace=True)
    assert make_job("send", {}, read_options({"lifo": True}), POLICY).lifo


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"dealy": seconds(1)}, "did you mean delay"),
        ({"id": 17}, "BullMQ counts integers itself"),
        ({"id": "17"}, "no integer"),
        ({"id": "a:b"}, "no colon"),
        ({"id": ""}, "1 to 500 characters"),
        ({"id": "x" * 501}, "1 to 500 characters"),
        ({"id": "wait"}, "key names"),
        ({"id": DELIVERY}, "the relay alone adds"),
        ({"delay": 5}, "as in delay=seconds"),
        ({"delay": seconds(-1)}, "≥ 0"),
        ({"priority": True}, "as in priority=10"),
        ({"priority": 2_097_152}, "between 0 and"),
        ({"lifo": 1}, "say True or False"),
        ({"lifo": True, "priority": 1}, "leave one of them out"),
        ({"deduplicate": "order-7"}, "as in Deduplicate"),
        ({"deduplicate": Deduplicate("x", extend=True)}, "give it a ttl"),
        ({"deduplicate": Deduplicate("x", ttl=seconds(0))}, "at least 0.001 seconds"),
    ],
)
def test_a_wrong_option_is_named(options: dict[str, Any], text: str) -> None:
    """Its name, its value or what contradicts it, and what would be right."""
    with pytest.raises(EnqueueError, match=text):
        make_job("send", {}, read_options(options), POLICY)


@pytest.mark.parametrize(
    ("data", "error", "text"),
    [
        ({"n": 2**60}, PayloadError, "declare the field as str"),
        ({"n": float("nan")}, PayloadError, "no NaN"),
        ({"n": {1}}, PayloadError, "no JSON object"),
        ({"n": "x" * 300_000}, PayloadError, "store it and send its id"),
        (["a"], EnqueueError, "neither an event nor a mapping"),
    ],
)
def test_data_that_cannot_travel_is_refused(data: Any, error: type[Exception], text: str) -> None:
    """By the rules of recorded events: what Node or Redis would change, or what is too long."""
    with pytest.raises(error, match=text):
        make_job("send", data, read_options({}), POLICY)


async def test_names_are_looked_for_where_they_are_known() -> None:
    """A handler's misspelt name, another queue's handler, another handler's event: each is refused before a connection is made."""
    mistakes: list[tuple[Any, Any, str]] = [
        ("sned", Asked(order_id=1), "did you mean send"),
        (test_names_are_looked_for_where_they_are_known, Asked(order_id=1), "is no handler of queue 'mail'"),
        ("send", {"order_id": 1}, "takes Asked, not dict"),
        ("", Asked(order_id=1), "no handler ''"),
    ]
    for job, data, text in mistakes:
        with pytest.raises(EnqueueError, match=text):
            await mail.enqueue(job, data)
    with pytest.raises(EnqueueError, match="1 to 200 characters"):
        await others.enqueue("", {})
    with pytest.raises(EnqueueError, match="cannot be the id of 2 jobs"):
        await others.enqueue_many("any", [{}, {}], id="one")
    with pytest.raises(EnqueueError, match="cannot be the id of a job"):
        mail.job("meta")
