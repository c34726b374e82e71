from homing import backoff
from homing.app import (
    FOREVER,
    Child,
    Children,
    Flow,
    Homing,
    Job,
    Keep,
    Provider,
    Queue,
    RateLimit,
    Retry,
    SyncFlow,
    Tick,
    Transaction,
)
from homing.client import Deduplicate
from homing.errors import FlowError, Key, PermanentError, RetryLater, Throttled, Unauthorized
from homing.events import Event
from homing.outbox import once, record

__all__ = [
    "FOREVER",
    "Child",
    "Children",
    "Deduplicate",
    "Event",
    "Flow",
    "FlowError",
    "Homing",
    "Job",
    "Keep",
    "Key",
    "PermanentError",
    "Provider",
    "Queue",
    "RateLimit",
    "Retry",
    "RetryLater",
    "SyncFlow",
    "Throttled",
    "Tick",
    "Transaction",
    "Unauthorized",
    "backoff",
    "once",
    "record",
]
