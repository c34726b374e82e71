"""Everything that turns in a process is watched, counted, looked over and told, whatever the process does."""

import os
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from prometheus_client import CollectorRegistry, generate_latest

from homing.app.application import Homing
from homing.config.settings import Settings
from homing.metrics import Metrics
from homing.operations.collector import COLLECT_SECONDS, Collector
from homing.processes.endpoint import answers_of, describe_verdict, served
from homing.processes.opening import Connections
from homing.processes.pulse import Pulse
from homing.processes.relaying import RelayLoops
from homing.processes.reports import FOLDER, Report, reporting
from homing.processes.signals import leave_stuck
from homing.processes.standing import Standing
from homing.processes.watchdog import Watchdog
from homing.service import Loop, share_outages, stop_all
from homing.worker.worker import Worker


@dataclass(frozen=True, slots=True)
class Shown:
    """What a process shows of itself: how it stands, what it counts, and the last look at everything."""

    standing: Standing
    metrics: Metrics
    collector: Collector
    address: str | None


@contextmanager
def shown(
    app: Homing, settings: Settings, connections: Connections, who: str, *, supervised: bool = False
) -> Iterator[Shown]:
    """Health and metrics are served inside the block, or told to the supervisor that serves them, from before the first job to after the last."""
    standing, metrics = Standing(who), Metrics(app.name)
    collector = Collector(app.name, connections.ledger, connections.engine)
    metrics.collected = collector.series
    if supervised:
        with _told(settings, standing, metrics, collector):
            yield Shown(standing, metrics, collector, None)
    else:
        metrics.registry.register(collector)
        with served(settings, answers_of(standing, collector, metrics.registry)) as address:
            yield Shown(standing, metrics, collector, address)


def _told(
    settings: Settings, standing: Standing, metrics: Metrics, collector: Collector
) -> AbstractContextManager[None]:
    folder = os.environ.get(FOLDER)
    if settings.http_address == "off" or folder is None:
        return nullcontext()
    looked = CollectorRegistry()
    looked.register(collector)

    def report() -> Report:
        metrics.flush()
        health = standing.health()
        return Report(
            at=time.monotonic(),
            live=health.live,
            ready=health.ready,
            reasons=list(health.reasons),
            verdict=describe_verdict(collector.verdict()),
            collected=generate_latest(looked).decode(),
        )

    return reporting(Path(folder), report)


@asynccontextmanager
async def watched(
    shown: Shown,
    settings: Settings,
    connections: Connections,
    *,
    worker: Worker | None = None,
    relay: RelayLoops | None = None,
    patience_seconds: float,
) -> AsyncIterator[None]:
    """Inside the block a watchdog sees whether everything turns, a stop included; `patience_seconds`: how long the event loop may not."""
    listener = None if relay is None else relay.listener
    pulse = Pulse(shown.metrics, shown.standing, engine=settings.engine, worker=worker, listener=listener)
    own = [Loop("collect", shown.collector.tick, interval_seconds=COLLECT_SECONDS), pulse.loop]
    working = [*(worker.loops if worker is not None else ()), *(relay.loops if relay is not None else ())]
    loops = [connections.heartbeat.loop, *own, *working]
    outages = share_outages(loops, pulse.note_back)
    watchdog = Watchdog(
        loops,
        end=leave_stuck,
        patience_seconds=patience_seconds,
        describe=_nobody if worker is None else worker.describe_task,
    )
    shown.standing.watch(loops, watchdog, outages, lambda: worker is not None and worker.doubts_ledger)
    connections.heartbeat.tell(lambda: describe_state(shown.standing, pulse, worker))
    watchdog.start()
    for loop in own:
        loop.start()
    try:
        yield
    finally:
        await stop_all(own)
        await watchdog.stop()
        shown.metrics.flush()


def describe_state(standing: Standing, pulse: Pulse, worker: Worker | None) -> Mapping[str, object]:
    """What the row of a process says of it; no word in it is anybody else's than ours."""
    health = standing.health()
    state: dict[str, object] = {
        "live": health.live,
        "ready": health.ready,
        "reasons": health.reasons,
        "lag_seconds": round(pulse.lag_seconds, 4),
    }
    if worker is not None:
        state["running"] = {queue: slots.running for queue, slots in worker.slots.items()}
        state["slots"] = {queue: slots.total for queue, slots in worker.slots.items()}
        state["parked"] = {queue: sum(jobs.count for jobs in kinds) for queue, kinds in worker.parked.items()}
        state["stuck"] = worker.stuck
    return state


def _nobody(_: str) -> str | None:
    return None
