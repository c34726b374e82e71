"""Background jobs that always arrive, and count once.

A name is imported when it is first asked for: who only records events loads no queue and no worker. `__init__.pyi` has the same
names for type checkers.
"""

from importlib import import_module
from typing import Any

_HOMES = {
    "FOREVER": "homing.app",
    "Child": "homing.app",
    "Children": "homing.app",
    "Deduplicate": "homing.client",
    "Event": "homing.events",
    "Flow": "homing.app",
    "FlowError": "homing.errors",
    "Homing": "homing.app",
    "Job": "homing.app",
    "Keep": "homing.app",
    "Key": "homing.errors",
    "PermanentError": "homing.errors",
    "Provider": "homing.app",
    "Queue": "homing.app",
    "RateLimit": "homing.app",
    "Retry": "homing.app",
    "RetryLater": "homing.errors",
    "SyncFlow": "homing.app",
    "Throttled": "homing.errors",
    "Tick": "homing.app",
    "Transaction": "homing.app",
    "Unauthorized": "homing.errors",
    "backoff": "homing",
    "once": "homing.outbox",
    "record": "homing.outbox",
}

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'homing' has no attribute {name!r}")
    found = import_module(f"homing.{name}") if home == "homing" else getattr(import_module(home), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
