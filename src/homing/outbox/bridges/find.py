"""Which bridge a connection takes, without importing a driver that the process does not use."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from homing.errors import RecordError
from homing.outbox.bridges.bridge import Bridge

_MODULES = {
    "asyncpg": "homing.outbox.bridges.asyncpg",
    "psycopg": "homing.outbox.bridges.psycopg",
    "sqlalchemy": "homing.outbox.bridges.sqlalchemy",
}


def find_bridge(tx: object, bind_arguments: Mapping[str, Any] | None = None) -> Bridge:
    """The bridge for `tx`; `RecordError` when it is no connection or session of a driver we know, or has no bind to choose.

    The names of the modules that its class comes from tell the driver. Whoever holds such an object has imported that driver, so
    importing our module for it cannot fail, and nobody else pays for it.
    """
    bridge = _find(tx)
    if bind_arguments is not None and not bridge.chooses_bind:
        raise RecordError(
            f"bind_arguments choose a connection for a SQLAlchemy session; {tx!r} is a connection already"
        )
    return bridge


def _find(tx: object) -> Bridge:
    for cls in tx.__class__.__mro__:
        module = _MODULES.get(cls.__module__.partition(".")[0])
        if module is not None:
            bridges: tuple[Bridge, ...] = import_module(module).BRIDGES
            for bridge in bridges:
                if isinstance(tx, bridge.kind):
                    return bridge
    kind = f"{tx.__class__.__module__}.{tx.__class__.__qualname__}"
    raise RecordError(
        f"Homing cannot write through a {kind}: pass the open transaction itself, as a SQLAlchemy AsyncSession, AsyncConnection, "
        "Session or Connection, or a psycopg or asyncpg connection"
    )
