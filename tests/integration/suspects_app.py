"""An application whose jobs come under suspicion: one handler of each kind, and a resource that says where it was made."""

import asyncio
import logging
import os
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine

from homing import Child, Event, Flow, Homing, Job, PermanentError, Provider, Retry, Transaction, backoff
from homing.durations import milliseconds, seconds
from homing.trace import current_trace
from homing.worker.children.hosting import Host

log = logging.getLogger("tests.suspects")

TABLE = "CREATE TABLE effects (kind text, pid integer, trace_id text)"
LONG_SECONDS = 60.0
WRITE = text("INSERT INTO effects VALUES (:kind, :pid, :trace_id)")


class Suspected(Event, topic="suspects.once", unrouted=True):
    """`mood`: what the handler does. `note`: a file that it writes once it runs."""

    mood: str = ""
    note: Path | None = None


class SuspectedLeast(Suspected, topic="suspects.least", unrouted=True):
    """The same without a transaction."""


class SuspectedCpu(Suspected, topic="suspects.cpu", unrouted=True):
    """The same for a processor."""


class SuspectedParent(Suspected, topic="suspects.parent", unrouted=True):
    """The same for one that waits for a child."""


class Maker:
    """A resource that knows the process it was made in."""

    def __init__(self) -> None:
        self.pid = os.getpid()


app = Homing("suspects", retry=Retry(attempts=2, backoff=backoff.fixed(milliseconds(20))))


@app.lifespan
async def resources(provide: Provider) -> AsyncIterator[None]:
    engine = create_async_engine(app.settings.sqlalchemy_url)
    provide(async_sessionmaker(engine, expire_on_commit=False))
    provide(Maker())
    yield
    await engine.dispose()


queue = app.queue("suspects", concurrency=4, timeout=seconds(1))
patient = app.queue("patient", concurrency=4)


@queue.handler("once", on=Suspected)
async def once(event: Suspected, tx: Transaction[AsyncSession]) -> int:
    """Write an effect in the transaction."""
    await act(event)
    trace = current_trace()
    await tx.execute(WRITE, {"kind": "once", "pid": os.getpid(), "trace_id": trace.trace_id if trace else None})
    return os.getpid()


@patient.handler("least", on=SuspectedLeast, at_least_once=True)
async def least(event: SuspectedLeast, maker: Maker, job: Job) -> list[int]:
    """Tell where it ran, and where its resource was made."""
    job.log("alone")
    await act(event)
    return [os.getpid(), maker.pid]


@patient.handler("parent", on=SuspectedParent, at_least_once=True)
async def parent(event: SuspectedParent, flow: Flow) -> list[int]:
    """Tell where it ran, and where its child did."""
    await act(event)
    found = await flow.wait_for(Child(cpu, SuspectedCpu(), key="cpu", on_failure="ignore"))
    return [os.getpid(), found.values["cpu"]]


@queue.handler("cpu", on=SuspectedCpu, at_least_once=True, cpu=True)
def cpu(event: SuspectedCpu) -> int:
    """Tell where it ran."""
    if event.mood == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if event.mood == "fail":
        raise PermanentError("a bad picture")
    return os.getpid()


async def act(event: Suspected) -> None:
    """Carry out a mood."""
    log.warning("acting")
    if event.note is not None:
        event.note.touch()
    match event.mood:
        case "die late":
            setattr(Host, "answer", lambda *_: os._exit(5))  # noqa: B010 - only in the child: a crash between commit and answer
        case "die":
            os.kill(os.getpid(), signal.SIGKILL)
        case "fail":
            raise PermanentError("a bad order")
        case "exit":
            os._exit(0)
        case "block":
            time.sleep(LONG_SECONDS)  # noqa: ASYNC251 - the mistake that is tested
        case "wait":
            await asyncio.sleep(LONG_SECONDS)
        case _:
            return
