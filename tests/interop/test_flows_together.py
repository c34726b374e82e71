"""Flows over both systems: parents there and children here, parents here and children there."""

from typing import Any
from uuid import UUID, uuid4

from homing import Child, Children, Event, Flow, Homing, PermanentError, Retry, backoff
from homing.config.settings import Settings
from homing.durations import milliseconds, seconds
from tests.interop.node import Node
from tests.system import quick, running
from tests.waiting import until

FAST = Retry(attempts=1, backoff=backoff.fixed(milliseconds(20)))


class Packed(Event, topic="interop.packed", aggregate="parcel", unrouted=True):
    """A parcel is ready."""

    parcel: str


class Paid(Event, topic="interop.paid", aggregate="order_id", unrouted=True):
    """An order is paid."""

    order_id: UUID


async def test_a_parent_in_node_gets_the_values_of_children_here(node: Node, settings: Settings) -> None:
    """Node's flow producer adds the tree, we run the children, and Node's worker the parent: with what they returned, and who failed why."""
    app = Homing("shop", retry=FAST)

    @app.queue("parcels").handler("ship", on=Packed, at_least_once=True)
    async def ship(event: Packed) -> dict[str, str]:
        if event.parcel == "lost":
            raise PermanentError("it fell off the lorry")
        return {"track": event.parcel}

    def child(parcel: str) -> dict[str, Any]:
        data = {"eventId": str(uuid4()), "payload": {"parcel": parcel}}
        options = {"jobId": parcel, "ignoreDependencyOnFailure": True}
        return {"name": "ship", "queueName": "parcels", "data": data, "opts": options}

    async with running(app, quick(settings), relay=False):
        children = [child(parcel) for parcel in ("a", "b", "lost")]
        flows = await node.flows()
        await flows.call("add", {"name": "bill", "queueName": "bills", "data": {}, "children": children})
        worker = await node.worker(
            "bills", "async (job) => [await job.getChildrenValues(), await job.getIgnoredChildrenFailures()]"
        )
        await until(lambda: worker.told("completed"), 30, "the parent has run in Node")
    ((_, (values, failures), _),) = worker.told("completed")
    parcels = f"{node.prefix}:parcels:"
    assert values == {f"{parcels}a": {"track": "a"}, f"{parcels}b": {"track": "b"}}
    assert failures == {f"{parcels}lost": "PermanentError: it fell off the lorry"}


async def test_a_parent_here_gets_the_values_of_children_in_node(node: Node, settings: Settings) -> None:
    """Our flow names a consumer of another system, Node's worker runs the children, and our handler learns what they came to."""
    app = Homing("shop", retry=FAST)
    bills = app.queue("bills")
    app.queue("parcels").consumer("ship", on=Packed, foreign=True)
    seen: list[Children] = []

    @bills.handler("bill", on=Paid, at_least_once=True)
    async def bill(event: Paid, flow: Flow) -> str:
        del event
        seen.append(await flow.children())
        return "billed"

    async with running(app, quick(settings), relay=False):
        children = [
            Child("parcels.ship", Packed(parcel=name), key=name, on_failure="ignore") for name in ("a", "b", "lost")
        ]
        handle = await bills.enqueue_flow(bill, Paid(order_id=uuid4()), children)
        await node.worker(
            "parcels",
            """async (job) => {
              const { parcel } = job.data.payload;
              if (parcel === "lost") throw new bullmq.UnrecoverableError("it fell off the lorry");
              return { track: parcel };
            }""",
        )
        assert await handle.result(timeout=seconds(30)) == "billed"
        await app.close()
    (got,) = seen
    assert got.values == {"a": {"track": "a"}, "b": {"track": "b"}}
    assert got.failures == {"lost": "it fell off the lorry"}


async def test_a_handler_here_waits_for_children_in_node(node: Node, settings: Settings) -> None:
    """A delivery's own job waits for Node: it is called again with the values, and its delivery is done."""
    app = Homing("shop", retry=FAST)
    bills = app.queue("bills")
    app.queue("parcels").consumer("ship", on=Packed, foreign=True)
    seen: list[Children] = []

    @bills.handler("bill", on=Paid, at_least_once=True)
    async def bill(event: Paid, flow: Flow) -> None:
        del event
        seen.append(await flow.wait_for(Child("parcels.ship", Packed(parcel="a"), key="a")))

    async with running(app, quick(settings)) as system:
        await system.record(Paid(order_id=uuid4()))
        await node.worker("parcels", "async (job) => ({ track: job.data.payload.parcel })")
        await system.settled(30)
    assert [children.values for children in seen] == [{"a": {"track": "a"}}]
