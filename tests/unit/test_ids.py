"""Ids of events, jobs and leases."""

import time
from uuid import UUID

import pytest

from homing.ids import LAST_GENERATION, DeliveryKey, is_consumer_name, new_event_id, new_token

EVENT = UUID("0197f1de-7c2b-7cc3-98a1-0f5a3a4c5d6e")


def test_event_ids_are_version_7_and_carry_their_time() -> None:
    """An event id is a UUID of version 7 whose first 48 bits are the time it was made."""
    before = time.time_ns() // 1_000_000
    made = new_event_id()
    after = time.time_ns() // 1_000_000
    assert made.version == 7
    assert made.variant == "specified in RFC 4122"
    assert before <= made.int >> 80 <= after


def test_ids_and_tokens_are_made_once() -> None:
    """No two events and no two claims share an id."""
    assert len({new_event_id() for _ in range(2000)}) == 2000
    assert len({new_token() for _ in range(2000)}) == 2000


def test_a_job_id_names_event_generation_and_consumer() -> None:
    """The job id can be read by people, has no colon and is no integer."""
    job_id = DeliveryKey(EVENT, "payments.capture", 3).job_id
    assert job_id == f"{EVENT}.3.payments.capture"
    assert ":" not in job_id
    assert not job_id.isdecimal()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "17",
        "repeat:abc:170000",
        f"{EVENT}",
        f"{EVENT}.1",
        f"{EVENT}.1.",
        f"{EVENT}.0.a",
        f"{EVENT}.01.a",
        f"{EVENT}.-1.a",
        f"{EVENT}.٣.a",
        f"{EVENT}.{LAST_GENERATION + 1}.a",
        f"{EVENT}.{'9' * 5000}.a",
        f"{str(EVENT).upper()}.1.a",
        f"{{{EVENT}}}.1.a",
        f"{EVENT.hex}.1.a",
        f"{EVENT}.1.a:b",
        f"{EVENT}.1.a b",
        f"{EVENT}.1.a\n",
    ],
)
def test_other_ids_are_nobodys(text: str) -> None:
    """What is not exactly one of our job ids is not read as one."""
    assert DeliveryKey.parse(text) is None


@pytest.mark.parametrize("name", ["a", "A9", "_x", "loyalty.award-points", "0", "a" * 200])
def test_names_that_can_stand_in_a_key(name: str) -> None:
    """Letters, digits, dot, dash and underscore make a name."""
    assert is_consumer_name(name)


@pytest.mark.parametrize("name", ["", ".a", "-a", "a b", "a:b", "a{b}", "é", "a\n", "a\x00", "a" * 201])
def test_names_that_cannot(name: str) -> None:
    """Everything else would break a key, a job id or a terminal."""
    assert not is_consumer_name(name)
