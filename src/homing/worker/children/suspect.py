"""`python -m homing.worker.children.suspect`: performs one run under suspicion, with the app's own resources, and tells how it ended.

Everything is as in the worker (gate, transaction, settle), except that the worker keeps the lease and finishes the job.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from uuid import UUID

from homing.app.application import Homing
from homing.app.flow_plan import Routes
from homing.app.handlers import Told
from homing.app.resources import Provider
from homing.clock import SystemClock
from homing.config.logs import log_fields
from homing.config.settings import Settings
from homing.deadletters.deadletters import DeadLetters
from homing.ledger.ledger import Ledger
from homing.outbox.expected import expect_ledger
from homing.queue.job import ClaimedJob, Lease
from homing.queue.redis import RedisEngine
from homing.trace import Trace, enter_trace
from homing.worker.batches import Guarantee
from homing.worker.calling import Caller
from homing.worker.catalogue import Catalogue
from homing.worker.children.failures import describe
from homing.worker.children.frames import Frame
from homing.worker.children.hosting import Host
from homing.worker.children.names import find
from homing.worker.children.pool import Children
from homing.worker.endings import Ending, Raised, Returned, Stopped, Torn, Unsure
from homing.worker.flows import ChildFailed, Flows, WaitsForChildren
from homing.worker.gating import Gatekeeper
from homing.worker.guarantees import make_guarantees
from homing.worker.opening import open_run
from homing.worker.run import Run
from homing.worker.transactions import check_sources, find_sources


def main() -> None:
    """Perform what the worker asks for, and leave when it wants no more."""
    host = Host.open()
    for request in host.requests():
        with log_fields(**request["log"]), enter_trace(Trace(**request["trace"])):
            asyncio.run(_serve(host, request))


@dataclass(frozen=True, slots=True)
class _Stage:
    """What a run needs, open."""

    run: Run
    guarantee: Guarantee
    ledger_id: UUID


@dataclass(frozen=True, slots=True)
class _Relayed:
    """What the run tells goes to the worker, which holds the job."""

    host: Host

    def tell(self, kind: Told, text: str) -> None:
        self.host.note(0, kind, text)  # this process has no other run


async def _serve(host: Host, request: Frame) -> None:
    """Answer as soon as it is known how the run ended; resources close afterwards."""
    async with AsyncExitStack() as stack:
        try:
            stage = await stack.enter_async_context(_open(request))
        except BaseException as error:  # noqa: BLE001 - the app's own code; that it cannot start is not the job's fault
            host.answer({"broken": describe(error)})
            return
        host.tell({"began": True})
        stage.run.notes = _Relayed(host)
        host.answer(_words(await _perform(stage)))


async def _perform(stage: _Stage) -> Ending:
    with expect_ledger(stage.ledger_id):
        try:
            return await stage.guarantee.perform(stage.run)
        except Exception as error:  # noqa: BLE001 - what the handler raises is contained; this is a server's or ours
            return Unsure(f"{type(error).__name__}: {error}")


@asynccontextmanager
async def _open(request: Frame) -> AsyncIterator[_Stage]:
    settings = Settings.model_validate(request["settings"])
    app: Homing = find(request["app"])
    app.use(settings)
    app.load()
    ledger = Ledger(
        settings.asyncpg_dsn, engine=settings.engine, application=f"homing suspect {app.name}", connections=2
    )
    engine = RedisEngine(settings.redis_dsn, prefix=settings.prefix or app.name)  # it connects where a flow asks it
    await ledger.open()
    try:
        async with AsyncExitStack() as stack:
            provider = Provider()
            if app.open_resources is not None:
                await stack.enter_async_context(app.open_resources(provider))
            flows = Flows(engine, ledger, Routes(app.routes))
            yield await _stage(app, settings, request, ledger, provider, flows=flows)
    finally:
        await engine.close()
        await ledger.close()


async def _stage(
    app: Homing, settings: Settings, request: Frame, ledger: Ledger, provider: Provider, *, flows: Flows
) -> _Stage:
    run = open_run(_job(request["job"]), Catalogue(app.handlers))
    if not isinstance(run, Run):
        raise TypeError(f"the child reads the job otherwise than its worker: {run}")
    sources = find_sources([run.handler], provider)
    await check_sources(sources, ledger.ledger_id)
    guarantees = make_guarantees(
        ledger=ledger,
        gate=Gatekeeper(ledger, DeadLetters(ledger)),
        sources=sources,
        caller=Caller(provider, settings.attempt_timeout.total_seconds(), Children(settings), flows.of),
        clock=SystemClock(),
    )
    return _Stage(run, guarantees[run.handler.guarantee], ledger.ledger_id)


def _job(fields: Frame) -> ClaimedJob:
    return ClaimedJob(**fields | {"lease": Lease(**fields["lease"])})


def _words(ending: Ending) -> Frame:
    """The ending for the worker, which asks the ledger itself where the ledger stopped the run."""
    match ending:
        case Returned(result=result):
            return {"returned": result}
        case Raised(error=WaitsForChildren() as end):
            return {"waits": str(end), "poll_seconds": end.poll_seconds}
        case Raised(error=ChildFailed() as end):
            return {"bereft": str(end)}
        case Raised(error=error):
            return {"raised": describe(error)}
        case Torn(error=error):
            return {"torn": str(error)}
        case Unsure(reason=reason):
            return {"unsure": reason}
        case Stopped():
            return {"stopped": True}
        case _:
            raise AssertionError(f"a child cannot end with {ending}")


if __name__ == "__main__":
    main()
