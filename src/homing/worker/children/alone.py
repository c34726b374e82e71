"""Suspects: jobs that several claims left without an end. Each runs alone in a child, and only a child that dies convicts it."""

import asyncio
import logging
import sys
from collections.abc import Coroutine
from dataclasses import asdict
from typing import Any

from homing.app.application import Homing
from homing.config.logs import log_context
from homing.config.settings import Settings
from homing.errors import HandlerEndedTransaction, RetryLater
from homing.ledger.gate import Asked
from homing.ledger.gate import Run as MayRun
from homing.ledger.ledger import LOCK_SECONDS
from homing.queue.job import ClaimedJob
from homing.worker.batches import Guarantee
from homing.worker.calling import Caller
from homing.worker.children.failures import ChildDied, rebuild
from homing.worker.children.frames import Frame
from homing.worker.children.pool import AGAIN_SECONDS, START_SECONDS
from homing.worker.children.process import ChildProcess
from homing.worker.endings import (
    LETTING_GO_SECONDS,
    Died,
    Ending,
    Raised,
    Returned,
    Stopped,
    Torn,
    Unsure,
    await_ending,
)
from homing.worker.flows import ChildFailed, WaitsForChildren
from homing.worker.gating import Gatekeeper
from homing.worker.run import Run

log = logging.getLogger("homing.worker")

SUSPECT = "homing.worker.children.suspect"

SETTLING_SECONDS = LETTING_GO_SECONDS + 2 * LOCK_SECONDS
"""What a child gets beyond the handler's own time, for the ledger and for a handler that does not listen."""


class Alone:
    """Performs suspects one to a child; gate and settle happen there too, the lease stays here."""

    def __init__(self, app: Homing, settings: Settings, gate: Gatekeeper, caller: Caller) -> None:
        self._app = app
        self._settings = settings
        self._gate = gate
        self._caller = caller

    async def perform(self, run: Run, otherwise: Guarantee) -> Ending:
        """Perform a suspect. Where no child could find the app, it is performed as any other run, and that is told."""
        decision = await self._gate.ask(run.case)
        if not isinstance(decision, MayRun):
            return Stopped(decision)
        log.warning("%s is a suspect: %s; it runs alone", run.consumer, _suspicion(run.job))
        if run.handler.kind == "process":  # it has a child of its own anyway
            return _convict(await otherwise.perform(run))
        place = place_of(self._app, self._settings)
        if place is None:
            log.error(
                "app %r is in no module that a child could import: its suspects run in the worker", self._app.name
            )
            return await otherwise.perform(run)
        return await self._perform(run, place)

    async def _perform(self, run: Run, place: str) -> Ending:
        try:
            child = await ChildProcess.start(SUSPECT, self._settings)
        except ChildDied as died:
            return _later(str(died))
        try:
            child.send(self._request(run, place))
            async with asyncio.timeout(START_SECONDS):
                said = await child.receive()
            if "broken" in said:
                return _later(rebuild(said["broken"]).report.summary)
            return await self._listen(run, child)
        except (ChildDied, TimeoutError) as error:
            return _later(str(error) or f"it did not begin within {START_SECONDS:g} s")
        finally:
            child.kill()
            await child.reap()

    async def _listen(self, run: Run, child: ChildProcess) -> Ending:
        task = asyncio.create_task(child.receive_answer(run.tell), name=f"run:{run.job.lease.job_id}")
        limit_seconds = self._caller.timeout_seconds(run) + SETTLING_SECONDS
        try:
            said = await await_ending(run, task, task, lambda: "", limit_seconds)
        except ChildDied as died:
            return _convict(Raised(died, run.cause))
        finally:
            task.cancel()
        if isinstance(said, Raised):
            return said
        await child.leave()
        return await self._understand(run, said)

    async def _understand(self, run: Run, said: Frame) -> Ending:
        match said:
            case {"returned": str(result)}:
                return Returned(result)
            case {"raised": described}:
                return Raised(rebuild(described))
            case {"waits": str(text), "poll_seconds": poll_seconds}:
                return Raised(WaitsForChildren(text, poll_seconds))
            case {"bereft": str(text)}:
                return Raised(ChildFailed(text))
            case {"torn": str(text)}:
                return Torn(HandlerEndedTransaction(text))
            case {"stopped": True}:
                decision = await self._gate.ask(run.case, Asked.SETTLE)
                return Unsure("the row changed meanwhile") if isinstance(decision, MayRun) else Stopped(decision)
            case _:
                return Unsure(str(said.get("unsure", said)))

    def _request(self, run: Run, place: str) -> Frame:
        return {
            "app": place,
            "settings": self._settings.model_dump(mode="json", exclude_unset=True),
            "job": asdict(run.job),
            "trace": asdict(run.trace),
            "log": dict(log_context.get()),
        }


class Suspecting:
    """A guarantee whose suspects are performed alone."""

    def __init__(self, ordinary: Guarantee, alone: Alone, fresh: Guarantee) -> None:
        self._ordinary = ordinary
        self._alone = alone
        self._fresh = fresh

    def perform(self, run: Run) -> Coroutine[Any, Any, Ending]:
        """Perform one run. `fresh` performs suspects of kind `process` in children that no other job has used."""
        if not run.case.asking.suspect:
            return self._ordinary.perform(run)
        return self._alone.perform(run, self._fresh if run.handler.kind == "process" else self._ordinary)


def place_of(app: Homing, settings: Settings) -> str | None:
    """`module:attribute` where another process finds the app, as the command line named it, or as some module holds it."""
    if settings.app is not None:
        return settings.app
    for name, module in list(sys.modules.items()):
        if name != "__main__":
            for attribute, value in list(getattr(module, "__dict__", {}).items()):
                if value is app:
                    return f"{name}:{attribute}"
    return None


def _suspicion(job: ClaimedJob) -> str:
    if job.deferred_failure is not None:
        return f"the engine gave it up ({job.deferred_failure})"
    return f"{job.stalls} claims of it ended without an end"


def _later(reason: str) -> Ending:
    return Raised(RetryLater(AGAIN_SECONDS, f"no child process can run the suspect: {reason}"))


def _convict(ending: Ending) -> Ending:
    """A child that died by itself, with nothing but this job in it, is the evidence."""
    if isinstance(ending, Raised) and isinstance(ending.error, ChildDied) and ending.cause is None:
        return Died(str(ending.error))
    return ending
