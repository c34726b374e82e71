"""What travels in a job's data: the event's id, the trace it belongs to, the payload, and which delivery this is.

The three outer fields are what a Node service reads. `delivery` is the identity that a worker trusts; a job without it is foreign to
the ledger and is known by its queue, id and time instead.
"""

import json
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha1
from json.encoder import encode_basestring_ascii
from typing import Any
from uuid import UUID

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel

from homing.errors import PayloadError
from homing.events.codec import dump_json
from homing.events.misfit import describe_misfit
from homing.ids import DeliveryKey
from homing.records import quickly_made

_VERSION_5 = 5 << 76 | 0b10 << 62
_NOT_VERSION = ~(0xF << 76 | 0b11 << 62)
_FOREIGN_JOBS = UUID("6f5b1a1e-6d52-5c0f-9a63-2f0a4e8d1b77").bytes


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """A job's data, opened. `delivery` is `None` for a job that no relay made; `raw` is the data as it came."""

    event_id: UUID
    trace_id: str | None
    traceparent: str | None
    version: int
    payload: dict[str, Any]
    delivery: DeliveryKey | None
    opened_at: datetime | None
    raw: str


class _Delivery(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, extra="ignore")
    consumer: str
    generation: int
    opened_at: datetime


class _Wire(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, extra="ignore")
    event_id: UUID
    trace_id: str | None = None
    traceparent: str | None = None
    version: int = 1
    payload: dict[str, Any]
    delivery: _Delivery | None = None


_read_wire = _Wire.__pydantic_validator__.validate_json  # `model_validate_json` without its questions about terms


def seal(
    *,
    key: DeliveryKey,
    opened_at: datetime,
    payload_json: str,
    headers: dict[str, Any],
) -> str:
    """The JSON text of a delivery's job data. `payload_json` is the recorded payload's own text, which travels as it is;
    `headers` are the recorded ones: trace id, traceparent, version; with `raw` the payload is the data of another producer's job.
    """  # noqa: D205 - one thought
    if headers.get("raw"):
        payload_json, headers = _take_apart(payload_json)
    data: dict[str, Any] = {"eventId": str(key.event_id), "traceId": headers.get("traceId")}
    if headers.get("traceparent"):
        data["traceparent"] = headers["traceparent"]
    if headers.get("version", 1) != 1:
        data["version"] = headers["version"]
    data["delivery"] = {
        "consumer": key.consumer,
        "generation": key.generation,
        "openedAt": opened_at.isoformat(),
    }
    return f'{dump_json(data)[:-1]},"payload":{payload_json}}}'


def _take_apart(data: str) -> tuple[str, dict[str, Any]]:
    """The payload and the headers inside an adopted job's data; what is no envelope is a payload that its handler must refuse."""
    value = json.loads(data)
    if not isinstance(value, dict):
        return dump_json({"raw": value}), {}
    payload = value.get("payload")
    if not isinstance(payload, dict):
        return data, {}
    kinds = {"traceId": str, "traceparent": str, "version": int}
    return dump_json(payload), {name: value[name] for name, kind in kinds.items() if isinstance(value.get(name), kind)}


def unseal(data: str) -> Envelope:
    """Read a job's data; `PayloadError` for what is no envelope (other producers may send anything)."""
    try:
        wire = _read_wire(data)
    except ValidationError as error:
        raise PayloadError(
            f"the job's data is no envelope (eventId, traceId, payload): {describe_misfit(error)}"
        ) from error
    delivery = wire.delivery
    return Envelope(
        event_id=wire.event_id,
        trace_id=wire.trace_id,
        traceparent=wire.traceparent,
        version=wire.version,
        payload=wire.payload,
        delivery=None if delivery is None else DeliveryKey(wire.event_id, delivery.consumer, delivery.generation),
        opened_at=None if delivery is None else delivery.opened_at,
        raw=data,
    )


def foreign_id(queue: str, job_id: str, timestamp_ms: int) -> UUID:
    """The inbox id of a job that another producer made.

    The timestamp is part of it, because counters of other producers start again at 1 when Redis is flushed; a scheduler's tick
    (`repeat:…`) names its time in the id already, and is the same tick whenever it was added.
    """
    identity = f"{encode_basestring_ascii(queue)}, {encode_basestring_ascii(job_id)}"  # JSON, as `json.dumps` has it
    name = f"[{identity}]" if job_id.startswith("repeat:") else f"[{identity}, {timestamp_ms}]"
    digest = sha1(_FOREIGN_JOBS + name.encode(), usedforsecurity=False).digest()
    return UUID(int=int.from_bytes(digest[:16]) & _NOT_VERSION | _VERSION_5)  # as `uuid5` has it, in half the time
