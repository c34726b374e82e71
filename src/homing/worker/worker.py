"""The worker of one process: lanes, runs, leases and rescue, on one event loop."""

import asyncio
import logging
import os
import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple
from uuid import uuid4

from homing.app.application import Homing
from homing.app.declared import Queue
from homing.app.flow_plan import Routes
from homing.app.handlers import Guarantee as GuaranteeName
from homing.app.handlers import Kind
from homing.app.resources import Provider, check_resources
from homing.app.series import begin_series
from homing.clock import Clock, SystemClock
from homing.config.logs import log_fields
from homing.config.settings import Settings
from homing.deadletters.deadletters import DeadLetters
from homing.ledger.ledger import Ledger
from homing.metrics import Metrics
from homing.queue.job import Lease
from homing.queue.parked import ParkedJobs
from homing.queue.port import Engine
from homing.service import Loop, stop_all
from homing.worker.batches import Guarantee
from homing.worker.calling import Caller
from homing.worker.catalogue import Catalogue
from homing.worker.children.alone import Alone, Suspecting
from homing.worker.children.names import check_findable
from homing.worker.children.pool import Children, Recycling
from homing.worker.counting import RunCounter
from homing.worker.endings import LETTING_GO_SECONDS
from homing.worker.executor import Executor
from homing.worker.flows import Bereft, Flows
from homing.worker.gating import Gatekeeper
from homing.worker.guarantees import make_guarantees
from homing.worker.health import Health, judge_health
from homing.worker.judging import Judge
from homing.worker.lanes import Claimer, Lane
from homing.worker.leases import LeaseKeeper
from homing.worker.ledger_outage import LedgerOutage
from homing.worker.parking import Unparker
from homing.worker.rescuing import Rescuer
from homing.worker.run import Cause
from homing.worker.settling import Settler
from homing.worker.spans import RunSpans
from homing.worker.ticking import Ticker
from homing.worker.transactions import AnySource, check_sources, find_sources

log = logging.getLogger("homing.worker")

CLAIM_PATIENCE_SECONDS = 60.0
"""The longest that one turn of the claim loop may take: it waits at most five seconds, and each of its calls ends in as many."""

ENDING_SECONDS = LETTING_GO_SECONDS + 5.0
"""How long runs may take to end once they were told to, before they are left behind."""


CROWD_SLOTS = 50
"""Slots for which one more connection to the ledger is made ready at the start: they may all be filled with the first claims."""


class Slots(NamedTuple):
    """One queue's slots in this worker: those taken, and all of them."""

    running: int
    total: int


class Worker:
    """Claims, runs and ends the jobs of some queues. The ledger, the engine and the resources are opened and closed by the caller."""

    def __init__(
        self,
        app: Homing,
        settings: Settings,
        *,
        ledger: Ledger,
        engine: Engine,
        provider: Provider,
        queues: Mapping[str, int | None] | None = None,
        metrics: Metrics | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._app = app
        self.metrics = metrics or Metrics(app.name)
        self._settings = settings
        self._ledger = ledger
        self._engine = engine
        self._provider = provider
        self._chosen = queues
        self._clock = clock or SystemClock()
        self.name = f"{socket.gethostname()}:{os.getpid()}:{uuid4().hex[:6]}"
        self.leases_lost = 0
        self._draining = False
        self._children: list[Children] = []
        self._lanes: list[Lane] = []
        self._loops: list[Loop] = []

    async def start(self) -> None:
        """Check what handlers ask for against what is provided, and begin to claim.

        Raises `RegistrationError` for parameters that nothing fills and for handlers that no child process could find, `ConfigurationError` when a transaction would be in another
        database than the ledger's.
        """
        queues = self._served()
        handlers = self._app.handlers  # all of them: a moved handler's old deliveries still come from its former queue
        check_resources(handlers, self._provider)
        check_findable(handlers)
        sources = find_sources(handlers, self._provider)
        await check_sources(sources, self._ledger.ledger_id)
        self._leases = LeaseKeeper(
            self._engine.extender(),
            lease_seconds=self._settings.lease.total_seconds(),
            beat_seconds=self._settings.beat.total_seconds(),
            on_taken=self._on_taken,
        )
        catalogue = Catalogue(handlers)
        dead_letters = DeadLetters(self._ledger, self.metrics)
        gate, settler = Gatekeeper(self._ledger, dead_letters), Settler(self._ledger)
        callers = self._callers()
        self._executor = Executor(
            engine=self._engine,
            catalogue=catalogue,
            guarantees=self._guarantees(gate, sources, callers),
            gate=gate,
            settler=settler,
            caller=callers[0],
            judge=Judge(gate, dead_letters, self._leases),
            leases=self._leases,
            ledger_id=self._ledger.ledger_id,
            clock=self._clock,
            counter=RunCounter(self.metrics, self._clock, self._ledger),
            spans=RunSpans(self._engine, self._settings.trace_relation),
            ticker=Ticker(self._engine, self.metrics, [one.schedule.id for one in self._app.schedules]),
            on_interrupted=lambda: self._outage.doubt(),  # noqa: PLW0108 - it is made after the lanes, and those after this
        )
        self._lanes = [self._lane(queue) for queue in queues]
        self._warn_of_few_connections(sources)
        self._claimer = Claimer(self._lanes, self._engine, self._clock)
        names = [queue.name for queue in queues]
        self._unparker = Unparker(self._engine, catalogue, names, on_unparked=self._claimer.wake)
        self._outage = LedgerOutage(self._ledger, pause=self._claimer.pause, resume=self._claimer.resume)
        self._loops = [
            Loop("claim", self._claimer.tick, interval_seconds=0.2, patience_seconds=CLAIM_PATIENCE_SECONDS),
            self._outage.loop,
            self._unparker.loop,
            *(self._rescue_loop(name, catalogue) for name in names),
        ]
        if crowds := sum(lane.concurrency for lane in self._lanes) // CROWD_SLOTS:
            await settler.warm_up(1 + crowds)
        begin_series(self._app, self.metrics)
        self._leases.start()
        with log_fields(app=self._app.name, worker=self.name):  # what the loops start, runs included, inherits them
            self._executor.take_context()
            for loop in self._loops:
                loop.start()
        log.info("worker %s serves %s", self.name, ", ".join(f"{x.queue}:{x.concurrency}" for x in self._lanes))

    async def stop(self, grace_seconds: float) -> bool:
        """Claim nothing more, let runs finish for `grace_seconds`, then give the rest back; whether all runs ended.

        Leases are renewed to the end. What is left behind is run again elsewhere when its lease ends.
        """
        began = self._clock.monotonic()
        self._draining = True
        self._claimer.stop()
        await stop_all(self._loops)
        left = await self._wait_for_runs(max(0.0, grace_seconds - (self._clock.monotonic() - began)))
        if left:
            log.warning("%d runs have not ended after %g s and are given back", left, grace_seconds)
            self._executor.cancel_all(Cause.SHUTDOWN)
            left = await self._wait_for_runs(ENDING_SECONDS)
        if left:
            log.error("%d runs did not end; their jobs come back when their leases end", left)
        await asyncio.gather(*(children.close() for children in self._children))
        await self._leases.stop()
        if stuck := self._executor.stuck:
            log.error("%d handlers ignored being told to end; their jobs were given back all the same", stuck)
        return not left and not stuck

    @property
    def running(self) -> int:
        """Jobs that are running now."""
        return sum(lane.running + lane.ending for lane in self._lanes)

    @property
    def stuck(self) -> int:
        """Handlers that were told to end, were given up, and still run."""
        return self._executor.stuck

    @property
    def stuck_by_name(self) -> Mapping[tuple[str, str], int]:
        """The same by queue and name of the handler."""
        return self._executor.stuck_by_name

    @property
    def slots(self) -> Mapping[str, Slots]:
        """By queue: how many jobs run, and how many may."""
        return {lane.queue: Slots(lane.running, lane.concurrency) for lane in self._lanes}

    @property
    def doubts_ledger(self) -> bool:
        """Whether nothing is claimed because the ledger did not answer."""
        return bool(self._loops) and self._outage.doubted

    @property
    def loops(self) -> Sequence[Loop]:
        """The background loops, for health."""
        return tuple(self._loops)

    @property
    def parked(self) -> Mapping[str, Sequence[ParkedJobs]]:
        """The parked jobs of its queues that it does not know, by queue; some other worker may."""
        return self._unparker.strange if self._loops else {}

    def health(self) -> Health:
        """Whether the worker lives and claims, from what its loops show now; not ready before `start`."""
        if not self._loops:
            return Health(live=True, ready=False, reasons=("the worker has not started",))
        now = self._clock.monotonic()
        turning = [loop.look(now) for loop in self._loops]
        return judge_health(turning, draining=self._draining, paused=self._outage.doubted)

    def describe_task(self, name: str) -> str | None:
        """Which handler and job a task of this name runs, for people; any thread may ask."""
        run = self._executor.run_of_task(name)
        return None if run is None else f"{run.handler.location} (job {run.job.lease.job_id})"

    def _served(self) -> list[Queue]:
        return [queue for queue in self._app.served_queues if self._chosen is None or queue.name in self._chosen]

    def _warn_of_few_connections(self, sources: Mapping[tuple[Any, Kind], AnySource]) -> None:
        """A pool smaller than the slots opens and closes a connection for every run beyond it: slow, and not an error."""
        for (wanted, kind), source in sources.items():
            queues = {
                handler.queue
                for handler in self._app.handlers
                if handler.kind == kind and handler.transaction is not None and handler.transaction.type is wanted
            }
            slots = sum(lane.concurrency for lane in self._lanes if lane.queue in queues)
            if source.connections is not None and source.connections < slots:
                log.warning(
                    "up to %d handlers take a transaction at once and their engine keeps %d connections: "
                    "create it with pool_size=%d",
                    slots,
                    source.connections,
                    slots,
                )

    def _callers(self) -> list[Caller]:
        """What calls the handlers of ordinary jobs, and those of suspects."""
        self._children = [Children(self._settings), Children(self._settings, Recycling(max_jobs=1))]
        timeout_seconds = self._settings.attempt_timeout.total_seconds()
        flows = Flows(self._engine, self._ledger, Routes(self._app.routes))
        return [Caller(self._provider, timeout_seconds, children, flows.of) for children in self._children]

    def _guarantees(
        self, gate: Gatekeeper, sources: Mapping[tuple[Any, Kind], AnySource], callers: Sequence[Caller]
    ) -> Mapping[GuaranteeName, Guarantee]:
        """Suspects run alone: those that have a child of their own anyway, in one that no other job has used."""
        ordinary, fresh = (
            make_guarantees(ledger=self._ledger, gate=gate, sources=sources, caller=caller, clock=self._clock)
            for caller in callers
        )
        alone = Alone(self._app, self._settings, gate, callers[0])
        suspecting = {name: Suspecting(ordinary[name], alone, fresh[name]) for name in ordinary}
        return {name: Bereft(guarantee, gate, self._engine) for name, guarantee in suspecting.items()}

    def _lane(self, queue: Queue) -> Lane:
        asked = (self._chosen or {}).get(queue.name)
        return Lane(
            queue.name,
            concurrency=asked or queue.concurrency or self._settings.worker_concurrency,
            limit=None if queue.limit is None else queue.limit.limit(),
            engine=self._engine,
            begin=self._executor.begin,
            lease_seconds=self._settings.lease.total_seconds(),
            worker=self.name,
            clock=self._clock,
            on_change=lambda: self._claimer.notice(),  # noqa: PLW0108 - the claimer is made after the lanes,
        )

    def _rescue_loop(self, queue: str, catalogue: Catalogue) -> Loop:
        seconds = self._settings.rescue.total_seconds()
        return Rescuer(queue, self._engine, catalogue, self.metrics, interval_seconds=seconds).loop

    async def _wait_for_runs(self, seconds: float) -> int:
        """Whether any are left, and how many."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                for lane in self._lanes:
                    await lane.emptied.wait()
        return self.running

    def _on_taken(self, lease: Lease) -> None:
        if self._executor.cancel(lease, Cause.LEASE_LOST):
            self.leases_lost += 1
            log.error("job %s: another run holds its lease; this one is told to end", lease.job_id)
