"""What happened: events, and how they travel."""

from homing.events.codec import MAX_PAYLOAD_BYTES, check_json, dump_json, encode_payload
from homing.events.envelope import Envelope, foreign_id, seal, unseal
from homing.events.event import Event, EventType, aggregate_id, known_events

__all__ = [
    "MAX_PAYLOAD_BYTES",
    "Envelope",
    "Event",
    "EventType",
    "aggregate_id",
    "check_json",
    "dump_json",
    "encode_payload",
    "foreign_id",
    "known_events",
    "seal",
    "unseal",
]
