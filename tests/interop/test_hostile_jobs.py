"""Whatever a Node service puts into a job's data, the worker lives, and what cannot be read is buried as it came."""

import json
from typing import Any
from uuid import uuid4

from homing import Event, Homing
from homing.config.settings import Settings
from tests.interop.node import Node
from tests.system import quick, running
from tests.waiting import until

MEGABYTE = "m" * 2**20


class Sent(Event, topic="interop.hostile", unrouted=True):
    """Reads two fields of what a job carries."""

    to: str
    count: int = 0


def envelope(**payload: Any) -> dict[str, Any]:
    """A job's data as it should be."""
    return {"eventId": str(uuid4()), "payload": {"to": "π", **payload}}


HOSTILE: dict[str, Any] = {
    "text": "hello",
    "number": 17,
    "null": None,
    "list": [1, {"to": "π"}],
    "empty": {},
    "no-event-id": {"payload": {"to": "π"}},
    "no-uuid": {"eventId": 17, "payload": {"to": "π"}},
    "no-payload": {"eventId": str(uuid4())},
    "payload-is-text": {"eventId": str(uuid4()), "payload": "π"},
    "wrong-type": envelope(to=["π"]),
    "wrong-number": envelope(count="many"),
    "megabyte": {"payload": {"to": MEGABYTE}},
    "proto": {"__proto__": {"eventId": "x"}, "constructor": 1},
}
FINE: dict[str, Any] = {
    "unknown-fields": {**envelope(more=[1], nested={"a": None}), "spanId": 5, "retries": {}},
    "fine-megabyte": envelope(to=MEGABYTE),
    "last": envelope(),
}


async def test_what_node_sends_is_run_or_buried_as_it_came(node: Node, settings: Settings) -> None:
    """No data at all, text, lists, a missing event id, wrong types, a megabyte: each is dead with its data; unknown fields are nobody's harm."""
    app = Homing("shop")
    ran: list[int] = []

    @app.queue("mail").handler("greet", on=Sent, at_least_once=True)
    async def greet(event: Sent) -> None:
        ran.append(len(event.to))

    async with running(app, quick(settings), relay=False) as system:
        queue = await node.queue("mail")
        both = HOSTILE | FINE
        await queue.call("addBulk", [{"name": "greet", "data": both[name], "opts": {"jobId": name}} for name in both])

        async def all_ended() -> bool:
            counts = await system.engine.counts("mail")
            return counts.completed + counts.failed == len(both)

        await until(all_ended, 30, "every job has ended")
        letters = {letter["job_id"]: json.loads(letter["data"]) for letter in await system.letters()}
        reasons = {name: (await node.run(REASON, queue, name)) for name in HOSTILE}
    assert sorted(ran) == [1, 1, 2**20]
    assert letters == HOSTILE
    assert all(reason.startswith("PayloadError: ") for reason in reasons.values())


REASON = "(queue, id) => bullmq.Job.fromId(queue, id).then((job) => job.failedReason)"
