"""A shop on a stage: a dashboard on a port, and behind it a relay and a worker whose gateway can be shut."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

import uvicorn

from homing import Event, Homing, PermanentError, Tick
from homing.config.settings import Settings
from homing.dashboard.access import Access
from homing.dashboard.app import Dashboard
from homing.dashboard.users import Users, make_user, write_user
from homing.deadletters.campaign import Terms
from homing.deadletters.campaigns import Campaigns
from homing.deadletters.filters import Filter
from homing.durations import hours
from homing.ids import DeliveryKey, JobId
from homing.ledger.actions import Person, Role
from homing.processes.heartbeat import Heartbeat
from homing.queue.flows import FlowJob
from homing.queue.job import NewJob
from homing.queue.parent import JobRef, Parent
from homing.scheduler import declare_schedules
from tests.integration.buried import bury
from tests.system import System, running
from tests.waiting import until

PASSWORD = "correct horse battery"

CAPTURE = "payments.capture"


class OrderPlaced(Event, topic="order.placed", unrouted=True):
    """An order: its number is all that the handlers need."""

    number: int


@dataclass(slots=True)
class Gateway:
    """Whether the other side answers."""

    answers: bool = True
    captured: list[int] = field(default_factory=list)


def app_of(gateway: Gateway) -> Homing:
    """The shop's background: captures die at once while the gateway does not answer."""
    app = Homing("shop")
    maintenance = app.queue("maintenance")

    @app.queue("payments").handler("capture", on=OrderPlaced, at_least_once=True)
    async def capture(event: OrderPlaced) -> None:
        if not gateway.answers:
            raise PermanentError("the gateway refused the capture: card_declined")
        gateway.captured.append(event.number)

    @app.queue("mail").handler("confirm", on=OrderPlaced, at_least_once=True)
    async def confirm(_: OrderPlaced) -> None:
        return None

    @app.queue("loyalty").handler("award-points", on=OrderPlaced, at_least_once=True)
    async def award(_: OrderPlaced) -> None:
        return None

    app.queue("shipping").handler("book", on=OrderPlaced, at_least_once=True)(confirm)

    @maintenance.schedule("clean-up", cron="0 3 * * *", zone="Europe/Berlin", at_least_once=True)
    async def clean(_: Tick) -> None:
        return None

    @maintenance.schedule("reconcile", every=hours(6), at_least_once=True)
    async def reconcile(_: Tick) -> None:
        return None

    return app


@dataclass(frozen=True, slots=True)
class Stage:
    """What tests act on; `url` is where the dashboard is."""

    url: str
    system: System
    gateway: Gateway
    dashboard: Dashboard

    async def fail_one(self, number: int) -> str:
        """An order whose capture died; the id of that job."""
        self.gateway.answers = False
        await self.system.record(OrderPlaced(number=number))
        await self.system.settled(60)
        self.gateway.answers = True
        row = await self.system.sql.fetchrow(
            "SELECT l.job_id FROM homing.dead_letters l JOIN homing.outbox_events o ON o.id = l.event_id"
            " WHERE l.consumer = $1 AND o.payload->>'number' = $2",
            CAPTURE,
            str(number),
        )
        assert row is not None
        return str(row["job_id"])

    async def bury(self, number: int, fingerprint: str) -> None:
        """So many dead captures, whose events are well."""
        await bury(
            self.system.sql,
            number,
            topic="order.placed",
            consumer=CAPTURE,
            error_class="GatewayError",
            text="the gateway said 503: service unavailable",
            fingerprint=fingerprint,
        )

    async def order_of(self, job_id: str) -> UUID:
        """The event of a job."""
        key = DeliveryKey.parse(job_id)
        assert key is not None
        return key.event_id


@contextmanager
def users_file(folder: Path) -> Iterator[Path]:
    """A viewer, an operator and an administrator, named after their roles."""
    file = folder / "users"
    for role in Role:
        write_user(file, make_user(role.name.lower(), role, PASSWORD))
    yield file


@asynccontextmanager
async def stage_on(settings: Settings, folder: Path) -> AsyncIterator[Stage]:
    """Everything in this process: servers outlive it."""
    gateway = Gateway()
    app = app_of(gateway)
    with users_file(folder) as file:
        async with running(app, settings) as system, beating(system, app):
            dashboard = Dashboard(settings, name="shop", access=Access(users=Users(file)))
            async with serving(dashboard) as url:
                yield Stage(url, system, gateway, dashboard)


@asynccontextmanager
async def beating(system: System, app: Homing) -> AsyncIterator[None]:
    """The heartbeats of this process."""
    heartbeat = Heartbeat(system.ledger, app, "worker", routes=True)
    worker = system.worker
    assert worker is not None
    heartbeat.tell(
        lambda: {
            "live": True,
            "ready": True,
            "reasons": [],
            "lag_seconds": 0.0021,
            "running": {queue: slots.running for queue, slots in worker.slots.items()},
            "slots": {queue: slots.total for queue, slots in worker.slots.items()},
        }
    )
    await heartbeat.tick()
    await declare_schedules(system.ledger, system.engine, app.schedules)  # by a process that is known to live
    heartbeat.loop.start()
    try:
        yield
    finally:
        await heartbeat.leave()


class _Server(uvicorn.Server):
    """Leaves the signals of the test run alone."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@asynccontextmanager
async def serving(dashboard: Dashboard) -> AsyncIterator[str]:
    """The dashboard on a port of this machine; yields its address."""
    config = uvicorn.Config(
        dashboard,
        host="127.0.0.1",
        port=0,
        log_config=None,
        access_log=False,
        lifespan="on",
        timeout_graceful_shutdown=1,
    )
    server = _Server(config)
    task = asyncio.create_task(server.serve())
    try:

        async def started() -> bool:
            assert not task.done(), task
            return server.started

        await until(started, 60, "the dashboard serves")
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}"
    finally:
        dashboard.desk.lookout.leave()
        server.should_exit = True
        await task


async def decorate(stage: Stage) -> dict[str, str]:
    """Put something of everything on the stage, as of a day on which a gateway had trouble; the pages worth a picture, by name."""
    sql, engine = stage.system.sql, stage.system.engine
    for number in range(40):
        await stage.system.record(OrderPlaced(number=number))
    await stage.system.settled(60)
    job_id = await stage.fail_one(1042)
    for number, fingerprint, error, text in (
        (36, "g503", "GatewayError", "the gateway said 503: service unavailable"),
        (9, "gtimeout", "TimeoutError", "no answer within 10 s from https://gateway.example.com/v1/captures"),
        (4, "gschema", "ValidationError", "amount: Input should be greater than 0"),
    ):
        await bury(
            sql, number, topic="order.placed", consumer=CAPTURE, error_class=error, text=text, fingerprint=fingerprint
        )
    await sql.execute(SPREAD)
    await sql.execute(LEAVE)
    campaign = await campaigned(stage)
    root = JobRef("shipping", JobId("parcels-1042"))
    parcels = [
        NewJob(
            id=JobId(f"parcel-{at}"),
            name="book",
            data=json.dumps({"parcel": at}),
            timestamp_ms=0,
            parent=Parent(root),
            delay_seconds=3600,
        )
        for at in range(1, 4)
    ]
    parent = NewJob(id=root.id, name="invoice", data="{}", timestamp_ms=0)
    await engine.add_flow(
        [FlowJob(queue=root.queue, job=parent, waits=True), *(FlowJob(queue="shipping", job=each) for each in parcels)]
    )
    letter = await sql.fetchval("SELECT max(id) FROM homing.dead_letters WHERE closed_at IS NULL")
    event = await stage.order_of(job_id)
    return {
        "overview": "/",
        "queues": "/queues",
        "queue": "/queues/payments",
        "jobs": "/jobs?state=completed",
        "case": f"/jobs/{job_id}",
        "event": f"/events/{event}",
        "search": "/search?q=topic:order.placed",
        "outbox": "/outbox?state=parked",
        "deadletters": "/deadletters",
        "letters": "/deadletters/list",
        "letter": f"/deadletters/{letter}",
        "redrive": "/deadletters/redrive?fingerprint=g503",
        "campaigns": "/deadletters/campaigns",
        "campaign": f"/deadletters/campaigns/{campaign}",
        "schedules": "/schedules",
        "flows": "/flows",
        "flow": "/flows/tree?id=parcels-1042&queue=shipping",
        "workers": "/workers",
        "actions": "/actions",
        "missing": "/nowhere",
    }


async def liven(stage: Stage, looks: int = 15) -> None:
    """Let orders flow for a minute, more in some moments than in others, so that pictures show work."""
    lookout = stage.dashboard.desk.lookout
    for look in range(looks):
        for number in range(20 + 12 * (look * 7 % 5)):
            await stage.system.record(OrderPlaced(number=number))
        await lookout.wait_next(60)


async def campaigned(stage: Stage) -> UUID:
    """A campaign that has ended."""
    campaigns = Campaigns(stage.system.ledger)
    chosen = Filter(fingerprint="gtimeout")
    begun = await campaigns.start(chosen, Terms(canary=2), Person("grace@desk", "the gateway answers in time again"))

    async def ended() -> bool:
        return (await campaigns.read(begun.id)).campaign.state == "finished"

    await until(ended, 60, "the campaign has ended")
    return begun.id


SPREAD = """
UPDATE homing.dead_letters SET failed_at = now() - (random() ^ 2) * interval '20 h' WHERE fingerprint LIKE 'g%'
"""
LEAVE = """
INSERT INTO homing.outbox_events (id, topic, aggregate_id, payload, available_at, parked_error)
SELECT gen_random_uuid(), 'order.placed', 'order-' || (2000 + i), '{}'::jsonb, now(), 'payload has no field "number", which version 1 needs' FROM generate_series(1, 3) i
UNION ALL SELECT gen_random_uuid(), 'order.gift-wrapped', 'order-' || (3000 + i), '{}', now(), NULL FROM generate_series(1, 4) i
"""
