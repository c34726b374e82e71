"""Which bridge a connection takes, without importing a driver that the process does not use."""

from importlib import import_module

from homing.errors import RecordError
from homing.outbox.bridges.bridge import Bridge

_MODULES = {
    "asyncpg": "homing.outbox.bridges.asyncpg",
    "psycopg": "homing.outbox.bridges.psycopg",
    "sqlalchemy": "homing.outbox.bridges.sqlalchemy",
}


def find_bridge(tx: object) -> Bridge:
    """The bridge for `tx`; `RecordError` when it is no connection or session of a driver we know.

    The names of the modules that its class comes from tell the driver. Whoever holds such an object has imported that driver, so
    importing our module for it cannot fail, and nobody else pays for it.
    """
    for cls in tx.__class__.__mro__:
        module = _MODULES.get(cls.__module__.partition(".")[0])
        if module is not None:
            bridges: tuple[Bridge, ...] = import_module(module).BRIDGES
            for bridge in bridges:
                if isinstance(tx, bridge.kind):
                    return bridge
    kind = f"{tx.__class__.__module__}.{tx.__class__.__qualname__}"
    raise RecordError(
        f"record cannot write through a {kind}: pass the open transaction itself, as a SQLAlchemy AsyncSession, AsyncConnection, "
        "Session or Connection, or a psycopg or asyncpg connection"
    )
