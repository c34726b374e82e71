"""What a type checker says about handlers: each ignore is an assertion, since an unused one is an error too."""

from typing import Any, assert_type

from sqlalchemy.ext.asyncio import AsyncSession

from homing import Deduplicate, Event, Homing, Job, Transaction
from homing.durations import seconds


class Paid(Event, topic="typing.paid", unrouted=True):
    amount: int


class Refunded(Event, topic="typing.refunded", unrouted=True):
    amount: int


class Mailer:
    """A resource."""


app = Homing("typing")
queue = app.queue("mail")


@queue.handler("fits", on=Paid, at_least_once=True)
async def fits(event: Paid, mail: Mailer, job: Job) -> int:
    """Takes the event it is registered on."""
    return event.amount


@queue.handler("once", on=Paid)
async def once(event: Paid, tx: Transaction[AsyncSession]) -> None:
    """The transaction is the session that it names."""
    assert_type(tx, AsyncSession)


@queue.handler("any", on=Paid, at_least_once=True)
async def takes_any(event: Event) -> None:
    """A handler of a wider type takes every event."""


@queue.handler("wrong", on=Paid, at_least_once=True)  # type: ignore[arg-type]  # a handler of another event
async def wrong(event: Refunded) -> None:
    """Takes another event than it is registered on."""


@queue.handler("empty", on=Paid, at_least_once=True)  # type: ignore[arg-type]  # the event is not taken at all
async def empty() -> None:
    """Takes nothing."""


@queue.handler("no-event", on=int, at_least_once=True)  # type: ignore[type-var]  # what is no event has no topic
async def no_event(event: int) -> None:
    """Is registered on what is no event."""


async def keeps_its_type(paid: Paid, mail: Mailer, job: Job) -> None:
    """The decorated function is called as it was written: with its own parameters, and its own result."""
    assert_type(await fits(paid, mail, job), int)
    await fits(paid, mail)  # type: ignore[call-arg]  # a parameter is missing
    await fits(paid, job, mail)  # type: ignore[arg-type]  # two are exchanged


@queue.handler("plain", on=Paid, at_least_once=True)
def plain(event: Paid, job: Job) -> str:
    """A handler that runs in a thread."""
    return f"{job.id}: {event.amount}"


async def enqueues(paid: Paid, refunded: Refunded) -> None:
    """A handler that is enqueued takes its own event, options have their types, and the handle knows the result."""
    handle = await queue.enqueue(fits, paid, delay=seconds(1), deduplicate=Deduplicate("paid"))
    assert_type(await handle.result(), int)
    assert_type(await (await queue.enqueue(plain, paid)).result(), str)
    assert_type(await (await queue.enqueue("fits", paid)).result(), Any)
    await queue.enqueue(fits, refunded)  # type: ignore[misc]  # another event
    await queue.enqueue("fits", paid, delay=1)  # type: ignore[call-overload]  # a number is no duration
    await queue.enqueue("fits", paid, dealy=seconds(1))  # type: ignore[call-overload]  # no such option
