"""`once`: whether a message is met for the first time, for code outside handlers, such as webhooks."""

from collections.abc import Awaitable, Coroutine, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, overload
from uuid import UUID

from homing.errors import RecordError
from homing.ids import inbox_id, is_consumer_name
from homing.outbox.answer import confirm_ledger
from homing.outbox.bridges.find import find_bridge
from homing.outbox.expected import expected_ledger
from homing.outbox.work import AsyncpgConnection, AsyncTransaction, SyncTransaction
from homing.schema.statement import Statement, load

LOCK_WAIT = "10s"
"""The longest wait for another transaction with the same message, where the connection sets no `lock_timeout` of its own."""


@dataclass(frozen=True, slots=True)
class Meeting:
    """One consumer meets one message: the parameters of the statement `once`, and which ledger has to answer."""

    event_id: UUID
    consumer: str
    ledger: UUID | None

    @property
    def statement(self) -> Statement:
        """`once`."""
        return load("homing.outbox", "once")

    def values(self) -> dict[str, object]:
        """The statement's parameters by name."""
        return {
            "event_id": str(self.event_id),
            "consumer": self.consumer,
            "ledger": None if self.ledger is None else str(self.ledger),
            "wait": LOCK_WAIT,
        }

    def answer(self, row: Sequence[Any] | None, database: str | None) -> bool:
        """Whether it was the first time, unless another ledger answered."""
        confirm_ledger(None if row is None else row[0], expected=self.ledger, database=database)
        return row is not None and bool(row[1])


class FirstTime(Awaitable[bool]):
    """The answer of an asynchronous connection, to be awaited; asking for its truth without that is an error."""

    def __init__(self, asked: Coroutine[Any, Any, bool]) -> None:
        self._asked = asked

    def __await__(self) -> Generator[Any, Any, bool]:
        return self._asked.__await__()

    def __bool__(self) -> NoReturn:
        self._asked.close()
        raise TypeError("once was not awaited: write `await once(…)`, or every message would be the first")


@overload
def once(
    tx: AsyncTransaction | AsyncpgConnection,
    /,
    consumer: str,
    message_id: str | UUID,
    *,
    bind_arguments: Mapping[str, Any] | None = None,
) -> FirstTime: ...
@overload
def once(
    tx: SyncTransaction,
    /,
    consumer: str,
    message_id: str | UUID,
    *,
    bind_arguments: Mapping[str, Any] | None = None,
) -> bool: ...
def once(
    tx: object,
    /,
    consumer: str,
    message_id: str | UUID,
    *,
    bind_arguments: Mapping[str, Any] | None = None,
) -> FirstTime | bool:
    """Whether `consumer` meets this message for the first time: then act on it in the same transaction `tx`, else skip it.

    True once per consumer and message, and only if `tx` commits: after a rollback the next caller is the first again. Nothing is
    committed or rolled back here. A transaction that met the same message and has not ended is waited for, as long as the
    connection's `lock_timeout` says, or 10 s where it says nothing; then the driver raises its error with SQLSTATE 55P03. That,
    40001 (a duplicate under REPEATABLE READ or SERIALIZABLE) and 40P01 end the transaction: the caller tries all of it again, or
    answers its sender with "try later".

    `message_id` is what the sender calls the message, the same in every copy of it; a UUID and its text are the same message.
    What is remembered is forgotten after the retention of the inbox (`HOMING_RETENTION__INBOX`, 30 days): a copy that is older is
    met for the first time. Keep the window longer than the sender repeats itself.

    Asynchronous connections give an awaitable. Raises as `record` does; `RecordError` too for a consumer that cannot be a name and
    for an empty message id.
    """
    meeting = Meeting(_message(message_id), _consumer(consumer), expected_ledger.get())
    bridge = find_bridge(tx, bind_arguments)
    first = bridge.run(tx, meeting, bind_arguments)
    return FirstTime(first) if bridge.is_async else bool(first)


def _consumer(name: str) -> str:
    if not isinstance(name, str) or not is_consumer_name(name):
        raise RecordError(f"consumer name {name!r}: use letters, digits, '.', '-' and '_', at most 200 of them")
    return name


def _message(message_id: str | UUID) -> UUID:
    try:
        return inbox_id(message_id)
    except ValueError as error:
        raise RecordError(str(error)) from error
