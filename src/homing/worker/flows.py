"""Flows of a worker: a run adds the children that it waits for, and ends there until they have ended."""

import asyncio
from collections.abc import Coroutine, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, assert_never
from uuid import UUID

from homing.app.flow_plan import Above, Planned, Routes, key_of, plan
from homing.app.flows import Child, Children
from homing.deadletters.redrive import Redrive
from homing.errors import FlowError, Refused, ServerUnavailable
from homing.events.envelope import foreign_id
from homing.ledger.actions import Person
from homing.ledger.gate import Run as MayRun
from homing.ledger.ledger import Ledger, Row
from homing.queue.flows import FlowJob, failed_child
from homing.queue.parent import JobRef
from homing.queue.port import Engine
from homing.queue.port import Refused as NotAdded
from homing.schema.statement import load
from homing.worker.batches import Guarantee
from homing.worker.endings import Ending, Raised, Stopped
from homing.worker.flow_judging import ChildRow, Fatal, Open, Ready, Verdict, judge_added, judge_children, newest
from homing.worker.gating import Gatekeeper
from homing.worker.run import FlowEnd, Run

CHILDREN = load("homing.worker", "children")

ASK_AGAIN_SECONDS = 5.0
"""How soon a run asks the ledger again where the engine cannot tell it that its children have ended."""

ADD_AGAIN_SECONDS = 1.0
"""How soon a run tries again to add children that could not be added just now."""


class WaitsForChildren(FlowEnd):
    """The run waits: until the engine says that its children have ended, or for `poll_seconds`."""

    def __init__(self, text: str, poll_seconds: float | None = None) -> None:
        super().__init__(text)
        self.poll_seconds = poll_seconds


class ChildFailed(FlowEnd):
    """A child of the run died, and that ends the run too."""


class Flows:
    """Gives each run the children of its job; made on the event loop that the engine and the ledger belong to."""

    def __init__(self, engine: Engine, ledger: Ledger, routes: Routes) -> None:
        self._engine = engine
        self._ledger = ledger
        self._redrive = Redrive(ledger)
        self._loop = asyncio.get_running_loop()
        self.routes = routes

    def of(self, run: Run) -> "RunFlow | ThreadFlow":
        """The flow of one run, as its handler can use it."""
        flow = RunFlow(self, run)
        return ThreadFlow(flow, self._loop) if run.handler.kind == "thread" else flow

    async def wait_for(self, run: Run, planned: tuple[Planned, ...]) -> Children:
        """What these children came to, or the end of the run."""
        verdict = await self._judge(run, planned)
        if isinstance(verdict, Open) and (verdict.missing or verdict.revive):
            await self._revive(run, verdict)
            await self._add(run, verdict.missing)
        return _conclude(run, verdict)

    async def children(self, run: Run) -> Children:
        """What the children came to that were added with the job, or the end of the run."""
        lease, above = run.job.lease, above_of(run)
        engine = await self._engine.family(lease.queue, lease.job_id)
        refs = [*engine.pending, *engine.completed, *engine.forgiven, *engine.fatal]
        keys = {ref: key_of(above.stem, ref.id) for ref in refs}
        messages = {ref: foreign_id(ref.queue, ref.id, above.timestamp_ms) for ref in refs if ref.queue}
        rows, _ = await self._rows(run, messages.values())
        known = {ref: rows[message] for ref, message in messages.items() if message in rows}
        return _conclude(run, judge_added(keys, known, engine))

    async def _judge(self, run: Run, planned: tuple[Planned, ...]) -> Verdict:
        lease = run.job.lease
        (rows, opened_at), engine = await asyncio.gather(
            self._rows(run, (child.message for child in planned)), self._engine.family(lease.queue, lease.job_id)
        )
        return judge_children(planned, rows, engine, opened_at)

    async def _rows(self, run: Run, messages: Iterable[UUID]) -> tuple[dict[UUID, ChildRow], datetime | None]:
        """What the ledger says of children, and since when the run's own delivery is open."""
        found = await self._ledger.fetch(CHILDREN, event_ids=[run.event_id, *messages])
        own = [row["opened_at"] for row in found if (row["event_id"], row["consumer"]) == (run.event_id, run.consumer)]
        rows = newest((row["event_id"], _child_row(row)) for row in found if row["event_id"] != run.event_id)
        return rows, own[0] if own and run.generation is not None else None

    async def _revive(self, run: Run, verdict: Open) -> None:
        """Children that died before their parent was opened again run again with it, as deliveries of the next generation."""
        for letter in verdict.revive:
            person = Person("homing", f"its parent {run.consumer} ({run.job.lease.job_id}) was opened again")
            try:
                await self._redrive.redrive(letter, person)
            except Refused as refused:  # closed or pruned meanwhile: what that means is found at the next look
                raise _ended(run, WaitsForChildren(str(refused), ADD_AGAIN_SECONDS)) from refused

    async def _add(self, run: Run, jobs: tuple[FlowJob, ...]) -> None:
        answers = await self._engine.add_flow(jobs) if jobs else []
        for answer in answers:
            if isinstance(answer, NotAdded) and answer.for_good:
                raise FlowError(answer.error)
            if isinstance(answer, NotAdded):
                raise _ended(run, WaitsForChildren(answer.error, ADD_AGAIN_SECONDS))


@dataclass(frozen=True, slots=True)
class RunFlow:
    """The children of the job that a run is about."""

    flows: Flows
    run: Run

    async def wait_for(self, *children: Child) -> Children:
        """Add those children that are not there yet, and wait until they have ended."""
        return await self._sure(self.flows.wait_for(self.run, plan(self.flows.routes, above_of(self.run), children)))

    async def children(self) -> Children:
        """What the children came to that were added together with this job."""
        return await self._sure(self.flows.children(self.run))

    async def _sure(self, asking: Coroutine[Any, Any, Children]) -> Children:
        """A server that does not answer is no failure of the handler: it waits, and asks again."""
        try:
            return await asking
        except ServerUnavailable as error:
            raise _ended(self.run, WaitsForChildren(str(error), ADD_AGAIN_SECONDS)) from error


@dataclass(frozen=True, slots=True)
class ThreadFlow:
    """The same for a handler in a thread: what it asks is asked on the event loop."""

    flow: RunFlow
    loop: asyncio.AbstractEventLoop

    def wait_for(self, *children: Child) -> Children:
        """Add those children that are not there yet, and wait until they have ended."""
        return asyncio.run_coroutine_threadsafe(self.flow.wait_for(*children), self.loop).result()

    def children(self) -> Children:
        """What the children came to that were added together with this job."""
        return asyncio.run_coroutine_threadsafe(self.flow.children(), self.loop).result()


class Bereft:
    """A guarantee that runs no job whose child's death has ended it: that dies as its child did. Suspects of the engine are others."""

    def __init__(self, ordinary: Guarantee, gate: Gatekeeper, engine: Engine) -> None:
        self._ordinary = ordinary
        self._gate = gate
        self._engine = engine

    def perform(self, run: Run) -> Coroutine[Any, Any, Ending]:
        """Perform one run."""
        child = failed_child(run.job.deferred_failure)
        return self._ordinary.perform(run) if child is None else self._die(run)

    async def _die(self, run: Run) -> Ending:
        decision = await self._gate.ask(run.case)
        if not isinstance(decision, MayRun):
            return Stopped(decision)
        lease = run.job.lease
        family = await self._engine.family(lease.queue, lease.job_id, most=1)
        if family.pending_count and not family.fatal_count:
            return Raised(ChildFailed(f"it has waited too long for {family.pending_count} of {family.count} children"))
        return Raised(ChildFailed(await self._why(run, family.fatal)))

    async def _why(self, run: Run, fatal: tuple[JobRef, ...]) -> str:
        """The child, and its own last words, where they are still there."""
        ours = [ref for ref in fatal if ref.queue]
        if not ours:
            return str(run.job.deferred_failure)
        end = (await self._engine.ends(ours[0].queue, [ours[0].id]))[0]
        reason = f": {end.reason}" if end.reason else ""
        return f"its child {key_of(above_of(run).stem, ours[0].id)} in queue {ours[0].queue} failed{reason}"


def above_of(run: Run) -> Above:
    """The run's job as the one above its children.

    Their ids begin with the event and the consumer of a delivery, whatever its generation: what a child has done once is done.
    """
    lease = run.job.lease
    stem = lease.job_id if run.generation is None else f"{run.event_id}.{run.consumer}"
    ref = JobRef(lease.queue, lease.job_id)
    return Above(ref=ref, stem=stem, timestamp_ms=run.job.timestamp_ms, trace=run.trace)


def _ended(run: Run, end: FlowEnd) -> FlowEnd:
    """To be raised where the run ends; it ends there also where the handler swallows it."""
    run.flow_end = end
    return end


def _conclude(run: Run, verdict: Verdict) -> Children:
    match verdict:
        case Ready(children=children):
            return children
        case Fatal(text=text):
            raise _ended(run, ChildFailed(text))
        case Open(waiting=waiting, elsewhere=elsewhere):
            poll_seconds = ASK_AGAIN_SECONDS if elsewhere else None
            raise _ended(run, WaitsForChildren(f"it waits for {waiting} children", poll_seconds))
    assert_never(verdict)


def _child_row(row: Row) -> ChildRow:
    fields: Mapping[str, Any] = {
        name: row[name] for name in ("outcome", "generation", "result", "letter", "failed_at", "error")
    }
    return ChildRow(**fields)
