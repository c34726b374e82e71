"""The ids that tie an event, its deliveries and its jobs together, and the types that keep them apart."""

import os
import re
import secrets
import time
from dataclasses import dataclass
from datetime import datetime
from typing import NewType
from uuid import UUID, uuid5

from homing.records import quickly_made

EventId = NewType("EventId", UUID)
JobId = NewType("JobId", str)
LeaseToken = NewType("LeaseToken", str)

_MESSAGES = UUID("0c3f6f1e-7f0c-5d0e-8d53-5a3b6c1f9b22")
_LOW_62 = (1 << 62) - 1
_CONSUMER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}")


def new_event_id() -> EventId:
    """A UUID version 7 (RFC 9562): time first, so that the primary key grows at its end and pruning walks it in order."""
    milliseconds = time.time_ns() // 1_000_000
    random = int.from_bytes(os.urandom(10))
    value = milliseconds << 80 | 0x7 << 76 | (random >> 62 & 0xFFF) << 64 | 0b10 << 62 | random & _LOW_62
    return EventId(UUID(int=value))


def first_id_at(moment: datetime) -> UUID:
    """The smallest version 7 id that could be made at `moment`: every event recorded earlier has a smaller one."""
    return UUID(int=max(0, int(moment.timestamp() * 1000)) << 80)


def inbox_id(message_id: str | UUID) -> UUID:
    """The inbox id of a message that its sender names; a `ValueError` for a name that is empty or no text.

    The same name is the same message, wherever it comes from: through `once`, or in a job whose handler says `message_id`.
    """
    if isinstance(message_id, UUID):
        return uuid5(_MESSAGES, str(message_id))
    if not isinstance(message_id, str) or not message_id:
        raise ValueError(f"message id {message_id!r}: give the text or the UUID by which its sender names the message")
    return uuid5(_MESSAGES, message_id)


def new_token() -> LeaseToken:
    """A lease token: one per claim, never used again, so that it can fence off every earlier run."""
    return LeaseToken(secrets.token_hex(12))


LAST_GENERATION = 32_767
"""The last generation a row can have (smallint): that many redrives of one delivery."""


@quickly_made
@dataclass(frozen=True, slots=True, order=True)
class DeliveryKey:
    """One event for one consumer, in one of its generations (1 until the first redrive)."""

    event_id: UUID
    consumer: str
    generation: int

    @property
    def job_id(self) -> JobId:
        """`<event>.<generation>.<consumer>`: readable at three in the morning, never an integer, without a colon."""
        return JobId(f"{self.event_id}.{self.generation}.{self.consumer}")

    @classmethod
    def parse(cls, job_id: str) -> "DeliveryKey | None":
        """Read a job id back, or `None` when the id is not one of ours."""
        event, _, rest = job_id.partition(".")
        generation, _, consumer = rest.partition(".")
        if not generation.isdecimal() or not generation.isascii() or not is_consumer_name(consumer):
            return None
        try:
            key = cls(UUID(event), consumer, int(generation))
        except ValueError:
            return None
        return key if key.job_id == job_id and 1 <= key.generation <= LAST_GENERATION else None


def is_consumer_name(name: str) -> bool:
    """Whether a consumer, queue or job name can be part of a job id and of a Redis key (no colon, no space, ≤ 200)."""
    return _CONSUMER.fullmatch(name) is not None
