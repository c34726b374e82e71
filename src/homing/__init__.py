"""Background jobs that always arrive, and count once."""

from homing import backoff
from homing.app import FOREVER, Homing, Job, Keep, Provider, Queue, RateLimit, Retry, Transaction
from homing.client import Deduplicate
from homing.errors import Key, PermanentError, RetryLater, Throttled, Unauthorized
from homing.events import Event
from homing.outbox import once, record

__all__ = [
    "FOREVER",
    "Deduplicate",
    "Event",
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
    "Throttled",
    "Transaction",
    "Unauthorized",
    "backoff",
    "once",
    "record",
]
