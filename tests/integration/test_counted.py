"""Every number is counted where it happens: things are made to happen, and the exposition is read."""

from uuid import UUID, uuid4

import pytest
from prometheus_client import REGISTRY, CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy.ext.asyncio import AsyncSession

from homing import Event, Homing, PermanentError, Retry, RetryLater, Throttled, Transaction, backoff, record
from homing.config.settings import Settings
from homing.deadletters.campaign import Terms
from homing.deadletters.campaigns import Campaigns
from homing.deadletters.filters import Filter
from homing.durations import milliseconds, seconds
from homing.ids import DeliveryKey, JobId, new_token
from homing.ledger.actions import Person
from homing.ledger.statements import PAYLOADS
from homing.queue.job import ClaimedJob, NewJob
from homing.queue.port import ClaimRequest
from tests.system import System, quick, running, with_sessions
from tests.waiting import until

QUEUE = "counted"
CONSUMER = "counted.work"

SILENT_WORKER = """
INSERT INTO homing.workers (id, host, pid, version, role, consumers, queues, seen_at)
VALUES (gen_random_uuid(), 'gone', 1, '0', 'worker', '{}', '{}', now() - interval '40 days')
"""


class Asked(Event, topic="counted.asked", aggregate="order_id", unrouted=True):
    order_id: UUID
    what: str = "done"


class Answered(Event, topic="counted.answered", aggregate="order_id", unrouted=True):
    order_id: UUID


class Numbers:
    """The samples of a registry, by name and labels."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def of(self, name: str, **labels: str) -> float:
        """The sum of the series that have these labels, 0 when there is none."""
        return sum(
            sample.value
            for family in text_string_to_metric_families(generate_latest(self._registry).decode())
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        )

    def series(self, name: str) -> dict[tuple[str, ...], float]:
        """The values by labels, `app` left out."""
        return {
            tuple(value for label, value in sorted(sample.labels.items()) if label != "app"): sample.value
            for family in text_string_to_metric_families(generate_latest(self._registry).decode())
            for sample in family.samples
            if sample.name == name
        }

    async def reach(self, wanted: float, name: str, **labels: str) -> None:
        """Wait until the sum is what is wanted."""
        await until(lambda: self.of(name, **labels) == wanted, what=f"{name} {labels} = {wanted:g}")


class Desk:
    """How often each event was worked on."""

    def __init__(self) -> None:
        self.runs: dict[UUID, int] = {}

    def first(self, event: Asked) -> bool:
        """Whether this is the first run for the event."""
        self.runs[event.event_id] = self.runs.get(event.event_id, 0) + 1
        return self.runs[event.event_id] == 1


def counted_app(settings: Settings, desk: Desk) -> Homing:
    """One handler that does what its event says."""
    app = Homing("counted-app")

    @app.queue(QUEUE, alert="each").handler(
        "work", on=Asked, retry=Retry(attempts=2, backoff=backoff.fixed(milliseconds(10)))
    )
    async def work(event: Asked, tx: Transaction[AsyncSession]) -> None:
        first = desk.first(event)
        match event.what:
            case "retry" if first:
                raise OSError("not yet")
            case "snooze" if first:
                raise RetryLater(milliseconds(10))
            case "throttle" if first:
                raise Throttled(seconds(0.5))
            case "die" if first:
                raise PermanentError("never")
            case "record":
                await record(tx, Answered(order_id=event.order_id), Answered(order_id=event.order_id))

    return with_sessions(app, settings)


@pytest.fixture
def app(settings: Settings) -> Homing:
    """The app of one test."""
    return counted_app(settings, Desk())


async def test_a_run_is_counted_from_recorded_to_finished(settings: Settings) -> None:
    """What routing, dispatch and each ending of a run add, to the series of their queue, job and consumer alone."""
    whats = ("done", "retry", "snooze", "throttle", "die", "record")
    async with running(counted_app(settings, Desk()), quick(settings)) as system:
        assert system.worker is not None
        assert system.relay is not None
        relay, worker = Numbers(system.relay.metrics.registry), Numbers(system.worker.metrics.registry)
        zeros = worker.series("homing_dead_letters_total"), relay.series("homing_dead_letters_total")
        assert zeros == ({(CONSUMER, "Unauthorized"): 0.0},) * 2, (
            "a rule sees the first only where it saw the zero before"
        )
        assert worker.of("homing_dead_letters_alert_each", consumer=CONSUMER) == 1
        await system.record(*(Asked(order_id=uuid4(), what=what) for what in whats))
        await relay.reach(6, "homing_events_routed_total", app="counted-app", topic="counted.asked")
        await relay.reach(6, "homing_relay_dispatched_jobs_total", queue=QUEUE, outcome="added")
        await relay.reach(6, "homing_relay_lag_seconds_count", queue=QUEUE)
        assert 0 <= relay.of("homing_relay_lag_seconds_sum", queue=QUEUE) < 60
        job = {"queue": QUEUE, "job": "work"}
        for outcome, runs in {"completed": 5, "retry": 1, "snoozed": 1, "throttled": 1, "dead": 1}.items():
            await worker.reach(runs, "homing_job_runs_total", outcome=outcome, **job)
        assert worker.of("homing_job_runs_total") == 9
        assert worker.of("homing_job_duration_seconds_count", **job) == 9
        assert worker.of("homing_job_wait_seconds_count", **job) == 6
        assert worker.of("homing_job_age_seconds_count", **job) == 6
        assert 0 < worker.of("homing_job_age_seconds_sum", **job) < 120
        assert worker.of("homing_queue_throttled_seconds_total", queue=QUEUE) == 0.5
        assert worker.of("homing_deliveries_settled_total", consumer=CONSUMER, outcome="done") == 5
        assert worker.of("homing_deliveries_settled_total", consumer=CONSUMER, outcome="dead") == 1
        assert worker.of("homing_dead_letters_total", consumer=CONSUMER, error_type="PermanentError") == 1
        assert worker.of("homing_events_recorded_total", topic="counted.answered") == 2


async def test_names_that_producers_invent_make_no_series(settings: Settings, app: Homing) -> None:
    """Jobs that no handler here knows are counted under one name, however many names they have."""
    async with running(app, quick(settings), relay=False) as system:
        assert system.worker is not None
        worker = Numbers(system.worker.metrics.registry)
        jobs = [
            NewJob(id=JobId(f"j-{number}"), name=f"invented-{number}", data="{}", timestamp_ms=0) for number in range(3)
        ]
        await system.engine.add(QUEUE, jobs)
        await worker.reach(3, "homing_job_runs_total", queue=QUEUE, job="(unknown)", outcome="parked")
        assert worker.of("homing_job_duration_seconds_count") == 0
        assert "invented" not in generate_latest(system.worker.metrics.registry).decode()


async def test_repairs_are_counted(settings: Settings, app: Homing) -> None:
    """A job that Redis lost, a worker that died, a job that was done before, dead letters that run again, rows that leave."""
    short = quick(settings)
    async with running(app, short, worker=False) as system:
        assert system.relay is not None
        relay = Numbers(system.relay.metrics.registry)
        event = Asked(order_id=uuid4())
        await system.record(event, Asked(order_id=uuid4(), what="die"))
        await relay.reach(2, "homing_relay_dispatched_jobs_total", outcome="added")
        await system.engine.remove(QUEUE, DeliveryKey(event.event_id, CONSUMER, 1).job_id)
        await system.sql.execute("UPDATE homing.deliveries SET check_at = now()")
        await relay.reach(1, "homing_deliveries_redispatched_total", consumer=CONSUMER, reason="gone")
        assert relay.of("homing_relay_lag_seconds_count") == 2
        await _abandon_one(system)
        await _settle_behind_its_back(system, event)
    async with running(app, short) as system:
        assert system.relay is not None
        assert system.worker is not None
        relay, worker = Numbers(system.relay.metrics.registry), Numbers(system.worker.metrics.registry)
        await worker.reach(1, "homing_jobs_rescued_total", queue=QUEUE, job="work")
        await worker.reach(1, "homing_deliveries_duplicate_total", consumer=CONSUMER)
        await worker.reach(1, "homing_dead_letters_total", consumer=CONSUMER)
        await _redrive(system)
        await relay.reach(1, "homing_redriven_total", consumer=CONSUMER, outcome="redriven")
        await system.settled()
        await system.sql.execute(SILENT_WORKER)
        await system.relay.prune.tick()
        assert relay.of("homing_pruned_rows_total", table="workers") == 1


async def _abandon_one(system: System) -> None:
    """Claim a job as a worker that dies at once."""
    claimed = await system.engine.claim(QUEUE, ClaimRequest(new_token(), lease_seconds=0.05))
    assert isinstance(claimed, ClaimedJob)


async def _settle_behind_its_back(system: System, event: Asked) -> None:
    """The state after a worker that died between settle and finish."""
    await system.sql.execute(
        "UPDATE homing.deliveries SET outcome = 'done', settled_at = now() WHERE event_id = $1", event.event_id
    )


async def _redrive(system: System) -> None:
    """Run all dead letters again."""
    await Campaigns(system.ledger).start(Filter(consumer=CONSUMER), Terms(rate=1000), Person("alice", "fixed"))


async def test_what_a_relay_hands_over_or_cannot_is_counted(settings: Settings) -> None:
    """A delivery for another system is settled when its job was handed over; one whose queue is in doubt was not."""
    app = Homing("counted-app")
    app.queue(QUEUE).consumer("print", on=Asked, elsewhere=True)
    async with running(app, quick(settings), worker=False) as system:
        assert system.relay is not None
        relay, event = Numbers(system.relay.metrics.registry), Asked(order_id=uuid4())
        await system.record(event)
        await relay.reach(1, "homing_deliveries_settled_total", consumer="counted.print", outcome="done")
        rows = await system.ledger.fetch(PAYLOADS, event_ids=[event.event_id], consumers=["counted.print"])
        system.relay.watch.doubt(QUEUE)
        assert await system.relay.dispatcher.dispatch(rows) == []
        assert relay.of("homing_relay_dispatched_jobs_total", queue=QUEUE, outcome="failed") == 1


async def test_outside_of_runs_recorded_events_are_counted_beside_the_web_apps_own(settings: Settings) -> None:
    """`record` in a web process counts in the default registry, which its own /metrics shows; a rollback is counted too."""
    before = REGISTRY.get_sample_value("homing_events_recorded_total", {"app": "(unnamed)", "topic": "counted.asked"})
    async with running(Homing("empty"), settings, worker=False, relay=False) as system:
        await system.record(Asked(order_id=uuid4()))
    after = REGISTRY.get_sample_value("homing_events_recorded_total", {"app": "(unnamed)", "topic": "counted.asked"})
    assert (after or 0) - (before or 0) == 1
