"""`record`: keep events with the change that caused them, in the transaction that makes the change."""

from collections.abc import Coroutine, Mapping
from datetime import datetime
from typing import Any, overload

from homing.events import Event
from homing.outbox.bridges.find import find_bridge
from homing.outbox.expected import expected_ledger
from homing.outbox.recording import prepare
from homing.outbox.work import AsyncpgConnection, AsyncTransaction, SyncTransaction


@overload
def record(
    tx: AsyncTransaction | AsyncpgConnection,
    /,
    *events: Event,
    available_at: datetime | None = None,
    bind_arguments: Mapping[str, Any] | None = None,
) -> Coroutine[Any, Any, None]: ...
@overload
def record(
    tx: SyncTransaction,
    /,
    *events: Event,
    available_at: datetime | None = None,
    bind_arguments: Mapping[str, Any] | None = None,
) -> None: ...
def record(
    tx: object,
    /,
    *events: Event,
    available_at: datetime | None = None,
    bind_arguments: Mapping[str, Any] | None = None,
) -> Coroutine[Any, Any, None] | None:
    """Write `events` in the caller's transaction `tx`: they exist if, and only if, it commits.

    One statement, now; nothing is flushed, committed or rolled back, and a savepoint that is rolled back takes its events along.
    Asynchronous connections give a coroutine to await. The same event object counts once, however often it is recorded, so a
    change that was rolled back can be tried again with the same objects.

    `available_at` (with a time zone) keeps the events from the relay until then; by default they are due at once.
    `bind_arguments` choose the connection of a SQLAlchemy session that has several, as `Session.connection` does.

    Raises `PayloadError` and other `RecordError`s before the connection is touched, in the asynchronous form from the call itself;
    `TransactionRequiredError` for a connection that is closed or would commit each statement by itself; `SchemaError` when the
    database has no ledger (PostgreSQL has ended the transaction then); `RecordError` when it has another one than the running
    worker's, and the transaction can go on.
    """
    recording = prepare(events, available_at=available_at, ledger=expected_ledger.get())
    bridge = find_bridge(tx, bind_arguments)
    if not events:
        return _nothing() if bridge.is_async else None
    written: Coroutine[Any, Any, None] | None = bridge.run(tx, recording, bind_arguments)
    return written


async def _nothing() -> None:
    """What there is to await when nothing was to be recorded."""
