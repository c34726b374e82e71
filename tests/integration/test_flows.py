"""Flows from inside handlers, on real servers: parents after children, whatever dies, is flushed or is redriven meanwhile."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID, uuid4

import pytest
from redis.asyncio import Redis
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from homing import (
    Child,
    Children,
    Event,
    Flow,
    FlowError,
    Homing,
    PermanentError,
    Retry,
    SyncFlow,
    Transaction,
    backoff,
)
from homing.config.settings import Settings
from homing.deadletters.redrive import Redrive
from homing.durations import milliseconds, seconds
from homing.errors import EnqueueError, JobFailed, ServerUnavailable
from homing.events.envelope import foreign_id
from homing.ids import DeliveryKey, JobId
from homing.ledger.actions import Person
from homing.operations.cancel import Answer, cancel
from homing.queue.port import QueueSettings
from homing.trace import enter_trace, new_trace
from tests.system import System, quick, running, with_sessions
from tests.waiting import until


class Paid(Event, topic="test.paid", aggregate="order_id", unrouted=True):
    order_id: UUID
    parcels: int = 2


class Packed(Event, topic="test.packed", aggregate="parcel", unrouted=True):
    parcel: str


FAST = Retry(attempts=1, backoff=backoff.fixed(milliseconds(20)))
Ship = Callable[[Packed], Awaitable[Any]]


class Shop:
    """An app that ships parcels and then bills; `runs` counts what its handlers did, `got` is what the bill saw."""

    def __init__(self, ship: Ship, on_failure: Any = "fail") -> None:
        self.app = app = Homing("test", retry=FAST)
        self.runs: Counter[str] = Counter()
        self.got: list[Children] = []
        bills, parcels = app.queue("bills"), app.queue("parcels")

        @parcels.handler("ship", on=Packed, at_least_once=True)
        async def ship_parcel(event: Packed) -> Any:
            self.runs[event.parcel] += 1
            return await ship(event)

        @bills.handler("bill", on=Paid, at_least_once=True)
        async def bill(event: Paid, flow: Flow) -> int:
            self.runs["bill"] += 1
            names = [f"p{number}" for number in range(event.parcels)]
            self.got.append(
                await flow.wait_for(
                    *(Child(ship_parcel, Packed(parcel=n), key=n, on_failure=on_failure) for n in names)
                )
            )
            return len(self.got[-1].values)


async def ship_well(event: Packed) -> str:
    """Nothing goes wrong."""
    return f"track-{event.parcel}"


async def lose_the_first(event: Packed) -> str:
    """One parcel is lost for good."""
    if event.parcel == "p0":
        raise PermanentError("it fell off the lorry")
    return f"track-{event.parcel}"


def bill_job(event: Paid) -> JobId:
    """The job of a bill."""
    return DeliveryKey(event.event_id, "bills.bill", 1).job_id


def child_job(event: Paid, key: str) -> JobId:
    """The job of one of its parcels."""
    return JobId(f"{event.event_id}.bills.bill~{key}")


async def state_of(system: System, event: Paid) -> str | None:
    """Where the bill's job is."""
    (job,) = await system.engine.glance("bills", [bill_job(event)])
    return None if job.state is None else str(job.state.value)


async def waits(system: System, event: Paid) -> None:
    """Wait until the bill waits for its children."""

    async def is_waiting() -> bool:
        return await state_of(system, event) == "waiting-children"

    await until(is_waiting, 20, "the bill waits for its children")


async def test_a_handler_waits_for_children_and_gets_their_values(settings: Settings) -> None:
    """It is called again when they have ended, sees what each returned, and settles in that run, with its own result."""
    shop = Shop(ship_well)
    async with running(shop.app, quick(settings)) as system:
        await system.record(Paid(order_id=uuid4()))
        await system.settled()
        assert shop.got == [Children(values={"p0": "track-p0", "p1": "track-p1"})]
        assert shop.runs == {"bill": 2, "p0": 1, "p1": 1}
        rows = await system.sql.fetch("SELECT consumer, origin, result::text FROM homing.deliveries ORDER BY 1, 3")
        assert [tuple(row) for row in rows] == [
            ("bills.bill", "outbox", "2"),
            ("parcels.ship", "job", '"track-p0"'),
            ("parcels.ship", "job", '"track-p1"'),
        ]


async def test_a_transaction_waits_for_children_without_holding_anything(settings: Settings) -> None:
    """The run that waits is rolled back; the one that goes on commits effect and settle together, once."""
    app = Homing("test", retry=FAST)

    @app.queue("parcels").handler("ship", on=Packed, at_least_once=True)
    async def ship(event: Packed) -> str:
        return event.parcel

    @app.queue("bills").handler("bill", on=Paid)
    async def bill(event: Paid, tx: Transaction[AsyncSession], flow: Flow) -> None:
        await tx.execute(text("INSERT INTO billed VALUES ('begun')"))
        done = await flow.wait_for(Child("parcels.ship", Packed(parcel="p0")))
        await tx.execute(text("INSERT INTO billed VALUES (:parcel)"), {"parcel": done.values["ship-p0"]})

    async with running(with_sessions(app, settings), quick(settings)) as system:
        await system.sql.execute("CREATE TABLE billed (what text)")
        await system.record(Paid(order_id=uuid4()))
        await system.settled()
        assert [row["what"] for row in await system.sql.fetch("SELECT what FROM billed")] == ["begun", "p0"]


@pytest.mark.parametrize("on_failure", ["continue", "ignore", "remove"])
async def test_a_parent_goes_on_without_a_child_that_died(settings: Settings, on_failure: str) -> None:
    """As the child's declaration says: it is told, or it is not, and it completes either way."""
    shop = Shop(lose_the_first, on_failure)
    async with running(shop.app, quick(settings)) as system:
        await system.record(Paid(order_id=uuid4()))
        await system.settled()
        rows = await system.sql.fetch("SELECT consumer, outcome FROM homing.deliveries ORDER BY consumer, outcome")
        ends = [("bills.bill", "done"), ("parcels.ship", "dead"), ("parcels.ship", "done")]
        await until(lambda: shop.runs["p1"] == 1, 20, "the other child runs too")
        assert on_failure == "continue" or [tuple(row) for row in rows] == ends
        (got,) = shop.got
        assert list(got.failures) == ([] if on_failure == "remove" else ["p0"])
        assert all("fell off the lorry" in reason for reason in got.failures.values())
        assert on_failure == "continue" or got.values == {"p1": "track-p1"}


async def test_the_death_of_a_child_is_the_death_of_its_parent_and_a_redrive_runs_both(settings: Settings) -> None:
    """Its letter names the child and why; redriven, it runs the dead child again and no other, and completes."""
    is_mended = False

    async def ship(event: Packed) -> str:
        if event.parcel == "p0" and not is_mended:
            raise PermanentError("it fell off the lorry")
        return f"track-{event.parcel}"

    shop = Shop(ship)
    async with running(shop.app, quick(settings)) as system:
        await system.record(Paid(order_id=uuid4()))
        await until(lambda: shop.runs["p1"] == 1, 20)
        await system.settled()
        letters = {letter["consumer"]: letter for letter in await system.letters()}
        assert "its child p0 in queue parcels failed: PermanentError: it fell off" in letters["bills.bill"]["error"]
        assert shop.got == []
        is_mended = True
        await _redrive(system, letters["bills.bill"]["id"])
        await system.settled(30)
        assert shop.got == [Children(values={"p0": "track-p0", "p1": "track-p1"})]
        assert (shop.runs["p0"], shop.runs["p1"]) == (2, 1)
        assert {letter["closed_as"] for letter in await system.letters()} == {"redriven"}


async def _redrive(system: System, letter: int) -> None:
    await Redrive(system.ledger).redrive(letter, Person("test"))


async def test_a_flush_in_the_middle_loses_nothing_and_adds_no_second_tree(disposable_settings: Settings) -> None:
    """What was done stays done with its value; what was not begun, or ran, is there again under the same ids."""
    gate = asyncio.Event()

    async def ship(event: Packed) -> str:
        if event.parcel != "p0":
            await gate.wait()
        return f"track-{event.parcel}"

    shop, settings = Shop(ship), quick(disposable_settings)
    async with running(shop.app, settings) as system, Redis.from_url(settings.redis_dsn) as client:
        event = Paid(order_id=uuid4(), parcels=3)
        await system.record(event)
        await waits(system, event)

        async def first_is_done() -> bool:
            return (await system.deliveries()).get("parcels.ship") == "done"

        await until(first_is_done, 20)
        await until(lambda: shop.runs["p2"] == 1, 20)
        await client.flushall()
        await waits(system, event)
        gate.set()
        await system.settled(30)
        assert shop.got[-1] == Children(values={f"p{n}": f"track-p{n}" for n in range(3)})
        assert shop.runs["p0"] == 1
        children = await system.sql.fetchval("SELECT count(*) FROM homing.deliveries WHERE consumer = 'parcels.ship'")
        assert children == 3
        found = await system.engine.family("bills", bill_job(event))
        assert (found.pending_count, found.count) == (0, 2)  # what was done before the flush needs no job any more


async def test_a_duplicate_child_completes_with_the_value_that_was_kept(settings: Settings) -> None:
    """A child whose finish was lost runs no second time, and the parent reads what the first run returned."""
    shop = Shop(ship_well)
    async with running(shop.app, quick(settings), worker=False) as system:
        event = Paid(order_id=uuid4(), parcels=1)
        message = await _message(system, event)
        await system.sql.execute(
            "INSERT INTO homing.deliveries (event_id, consumer, queue, job_name, origin, outcome, settled_at, result)"
            " VALUES ($1, 'parcels.ship', 'parcels', 'ship', 'job', 'done', now(), '\"kept\"')",
            message,
        )
    async with running(shop.app, quick(settings)) as system:
        await system.settled()
    assert shop.got == [Children(values={"p0": "kept"})]
    assert shop.runs["p0"] == 0


async def _message(system: System, event: Paid) -> UUID:
    await system.record(event)
    created = await system.sql.fetchval("SELECT created_at FROM homing.outbox_events WHERE id = $1", event.event_id)
    return foreign_id("parcels", child_job(event, "p0"), int(created.timestamp() * 1000))


@pytest.mark.parametrize("way", ["removed", "lost"])
async def test_a_child_that_vanished_comes_back(settings: Settings, way: str) -> None:
    """Taken out in a queue tool, or lost by the engine: its parent asks for it again, as long as nobody cancelled it."""
    shop = Shop(ship_well)
    hold = quick(settings, review=milliseconds(100))
    async with running(shop.app, hold) as system, Redis.from_url(settings.redis_dsn) as client:
        await system.engine.push_settings("parcels", QueueSettings(paused=True))
        event = Paid(order_id=uuid4(), parcels=1)
        await system.record(event)
        await waits(system, event)
        if way == "removed":
            assert await system.engine.remove("parcels", child_job(event, "p0"))
        else:
            await client.delete(f"{settings.prefix}:parcels:{child_job(event, 'p0')}")
        await until(lambda: shop.runs["bill"] == 2, 20, "the bill asks again")
        await waits(system, event)
        await system.engine.push_settings("parcels", QueueSettings(paused=False))
        await system.settled()
    assert shop.got == [Children(values={"p0": "track-p0"})]


async def test_a_cancelled_child_is_a_failure_and_cancelled_parents_take_their_children_with_them(
    settings: Settings,
) -> None:
    """Cancelling is for good: a child counts as failed, and what waits below a cancelled parent does not run."""
    shop = Shop(ship_well, "ignore")
    who = Person("test")
    async with running(shop.app, quick(settings)) as system:
        await system.engine.push_settings("parcels", QueueSettings(paused=True))
        first, second = Paid(order_id=uuid4(), parcels=1), Paid(order_id=uuid4(), parcels=2)
        await system.record(first, second)
        await waits(system, first)
        await waits(system, second)
        answers = await cancel(system.ledger, system.engine, [child_job(first, "p0"), bill_job(second)], who)
        assert [each.answer for each in answers] == [Answer.CANCELLED, Answer.CANCELLED]
        await until(lambda: len(shop.got) == 1, 20)
        assert shop.got == [Children(failures={"p0": "was cancelled"})]
        await system.settled()
        assert (await system.engine.counts("parcels")).waiting == 0


async def test_a_parent_does_not_wait_past_its_deadline(settings: Settings) -> None:
    """Its children may never come: it dies as expired, and one that no relay made as of a child that died."""
    app = Homing("test", retry=FAST, deadline=seconds(2))
    bills = app.queue("bills")

    @bills.handler("bill", on=Paid, at_least_once=True)
    async def bill(event: Paid, flow: Flow) -> None:
        await flow.wait_for(Child("parcels.ship", Packed(parcel="p0")))

    app.queue("parcels").consumer("ship", on=Packed, foreign=True)  # nobody runs it here, and nobody ever comes
    async with running(app, quick(settings, review=milliseconds(100))) as system:
        await system.record(Paid(order_id=uuid4()))
        direct = await bills.enqueue_flow("bill", Paid(order_id=uuid4()), [Child("parcels.ship", Packed(parcel="p1"))])
        with pytest.raises(JobFailed, match="waited too long for 1 of 1 children"):
            await direct.result(40)
        await system.settled(30)
        letters = {letter["kind"]: letter["consumer"] for letter in await system.letters()}
        assert letters == {"expired": "bills.bill", "failed": "bills.bill"}
        await app.close()


async def test_children_of_children_and_stages(settings: Settings) -> None:
    """A tree in one call, read from below by its middle; and a second stage that depends on the first."""
    app = Homing("test", retry=FAST)
    parcels, bills = app.queue("parcels"), app.queue("bills")
    seen: list[Children] = []

    @parcels.handler("ship", on=Packed, at_least_once=True)
    async def ship(event: Packed) -> str:
        return event.parcel

    @parcels.handler("load", on=Packed, at_least_once=True)
    async def load(event: Packed, flow: Flow) -> str:
        return "+".join(sorted((await flow.children()).values))

    @bills.handler("bill", on=Paid, at_least_once=True)
    async def bill(event: Paid, flow: Flow) -> None:
        inside = [Child(ship, Packed(parcel=name), key=name) for name in ("a", "b")]
        first = await flow.wait_for(Child(load, Packed(parcel="lorry"), key="lorry", children=inside))
        seen.append(await flow.wait_for(Child(ship, Packed(parcel=first.values["lorry"]), key="second")))

    async with running(app, quick(settings)) as system:
        await system.record(Paid(order_id=uuid4()))
        await system.settled()
    assert seen == [Children(values={"second": "a+b"})]


async def test_a_plain_function_waits_in_its_thread(settings: Settings) -> None:
    """It is called again like a coroutine; and a server that is away for a moment costs it no attempt."""
    app = Homing("test", retry=FAST)

    @app.queue("parcels").handler("ship", on=Packed, at_least_once=True)
    def ship(event: Packed) -> str:
        return event.parcel

    @app.queue("bills").handler("bill", on=Paid, at_least_once=True)
    def bill(event: Paid, flow: SyncFlow) -> list[str]:
        names = [f"p{number}" for number in range(event.parcels)]
        return sorted(flow.wait_for(*(Child(ship, Packed(parcel=name)) for name in names)).values)

    async with running(app, quick(settings)) as system:
        asked, away = system.engine.family, asyncio.Event()

        async def family(*arguments: Any, **named: Any) -> Any:
            if not away.is_set():
                away.set()
                raise ServerUnavailable("gone for a moment")
            return await asked(*arguments, **named)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(system.engine, "family", family)
            await system.record(Paid(order_id=uuid4()))
            await system.settled(30)
        assert away.is_set()
        result = await system.sql.fetchval("SELECT result::text FROM homing.deliveries WHERE consumer = 'bills.bill'")
        assert result == '["ship-p0", "ship-p1"]'


async def test_a_flow_that_cannot_be_is_a_death_with_its_reason(settings: Settings) -> None:
    """Nothing of it is added: trying again would give the same. A handler that swallows the wait waits all the same."""
    app = Homing("test", retry=FAST)
    bills = app.queue("bills")
    swallowed: list[BaseException] = []

    @app.queue("parcels").handler("ship", on=Packed, at_least_once=True)
    async def ship(event: Packed) -> str:
        if event.parcel == "slow":
            return "at last"
        return event.parcel

    @bills.handler("twice", on=Paid, at_least_once=True)
    async def twice(event: Paid, flow: Flow) -> None:
        await flow.wait_for(*[Child(ship, Packed(parcel="same"))] * 2)

    @bills.handler("swallows", on=Paid, at_least_once=True)
    async def swallows(event: Paid, flow: Flow) -> object:
        try:
            return (await flow.wait_for(Child(ship, Packed(parcel="slow")))).values
        except BaseException as end:  # noqa: BLE001 - what nobody should do
            swallowed.append(end)
            return "wrong"

    async with running(app, quick(settings)) as system:
        await system.record(Paid(order_id=uuid4()))
        await system.settled()
        (letter,) = await system.letters()
        assert letter["consumer"] == "bills.twice"
        assert FlowError.__name__ in letter["error"]
        assert "'ship-same'" in letter["error"]
        result = await system.sql.fetchval(
            "SELECT result->>'ship-slow' FROM homing.deliveries WHERE consumer = 'bills.swallows'"
        )
        assert result == "at last"
        assert swallowed


async def test_a_flow_is_enqueued_directly_and_its_end_is_awaited(
    settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    """The root runs after its children, whose values its handler asks for; the handle waits for the root. Inside a request that warns."""
    app = Homing("test", retry=FAST)
    parcels, bills = app.queue("parcels"), app.queue("bills")

    @parcels.handler("ship", on=Packed, at_least_once=True)
    async def ship(event: Packed) -> str:
        return event.parcel

    @bills.handler("bill", on=Paid, at_least_once=True)
    async def bill(event: Paid, flow: Flow) -> dict[str, Any]:
        return dict((await flow.children()).values)

    async with running(app, quick(settings)) as system:
        event = Paid(order_id=uuid4())
        children = [Child(ship, Packed(parcel=name)) for name in ("a", "b")]
        handle = await bills.enqueue_flow(bill, event, children)
        assert "from inside a request" not in caplog.text
        with enter_trace(new_trace()):
            again = await bills.enqueue_flow("bill", event, children)
        assert again.id == handle.id
        assert "from inside a request" in caplog.text
        assert await handle.result(20) == {"ship-a": "a", "ship-b": "b"}
        with pytest.raises(FlowError, match=r"parcels\.shop"):
            await bills.enqueue_flow(bill, event, [Child("parcels.shop", Packed(parcel="a"))])
        with pytest.raises(EnqueueError, match="without children"):
            await bills.enqueue_flow(bill, event, [])
        await app.close()
        assert system.worker is not None
