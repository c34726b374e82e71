"""The application whose worker dies at every step of a flow, once: the file of each step in `CRASH_FOLDER` says that it has.

Parcels are shipped in a transaction, so that an effect that happened twice is seen; the bill returns what it heard of them.
"""

import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine

from homing import Child, Event, Flow, Homing, Provider, Retry, Transaction, backoff
from homing.durations import milliseconds
from homing.queue.redis import RedisEngine

PARCELS = 4
ADDING = ("before add_flow", "after add_flow", "before wait_for_children", "after wait_for_children")
"""Where a worker dies that runs bills: around the calls that make a flow, and make its parent wait."""

ENDING = ("before complete",)
"""Where one dies that ships: an effect has happened, and the engine does not know of it."""

_CALLS = {
    "add_flow": "add_flow",
    "wait_for_children": "wait_for_children",
    "complete": "complete",
    "complete_group": "complete",
}


class Billed(Event, topic="flow.billed", unrouted=True):
    """An order of some parcels."""


class Packed(Event, topic="flow.packed", aggregate="number", unrouted=True):
    """One of them."""

    number: int


app = Homing("flows", retry=Retry(attempts=3, backoff=backoff.fixed(milliseconds(50))))


@app.lifespan
async def resources(provide: Provider) -> AsyncIterator[None]:
    for name, step in _CALLS.items():
        _let_it_die_around(name, step)
    engine = create_async_engine(app.settings.sqlalchemy_url)
    provide(async_sessionmaker(engine, expire_on_commit=False))
    yield
    await engine.dispose()


@app.queue("parcels").handler("ship", on=Packed)
async def ship(event: Packed, tx: Transaction[AsyncSession]) -> int:
    await tx.execute(text("INSERT INTO effects VALUES (:id, :number)"), {"id": event.event_id, "number": event.number})
    return event.number * 10


@app.queue("bills").handler("bill", on=Billed, at_least_once=True)
async def bill(event: Billed, flow: Flow) -> dict[str, Any]:
    shipped = await flow.wait_for(*(Child(ship, Packed(number=number)) for number in range(PARCELS)))
    return dict(shipped.values)


def _let_it_die_around(name: str, step: str) -> None:
    """Kill this process before and after a call of the engine, each once in the life of the test."""
    call: Callable[..., Awaitable[Any]] = getattr(RedisEngine, name)

    async def dying(*arguments: Any, **named: Any) -> Any:
        _die_once(f"before {step}")
        answer = await call(*arguments, **named)
        _die_once(f"after {step}")
        return answer

    setattr(RedisEngine, name, dying)


def _die_once(step: str) -> None:
    mark = Path(os.environ["CRASH_FOLDER"]) / step
    if step in (*ADDING, *ENDING) and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
