"""Which handler a job is for."""

from datetime import UTC, datetime
from uuid import UUID

import pytest

from homing import Event, Homing
from homing.app import Handler
from homing.events.envelope import Envelope, seal, unseal
from homing.ids import DeliveryKey
from homing.worker.catalogue import Catalogue

EVENT = UUID("0197f1de-7c2b-7cc3-98a1-0f5a3a4c5d6e")


class Paid(Event, topic="catalogue.paid", unrouted=True):
    amount: int = 1


async def award(event: Paid) -> None:
    """A handler."""


async def confirm(event: Paid) -> None:
    """Another one."""


def handlers() -> tuple[Handler, ...]:
    """`loyalty.award`, formerly `points.add`, and `mail.confirm`."""
    app = Homing("test")
    app.queue("loyalty").handler("award", on=Paid, at_least_once=True, aliases=["points.add"])(award)
    app.queue("mail").handler("confirm", on=Paid, at_least_once=True)(confirm)
    return app.handlers


def envelope(consumer: str) -> Envelope:
    """The data of a delivery for `consumer`."""
    key = DeliveryKey(EVENT, consumer, 1)
    return unseal(seal(key=key, opened_at=datetime(2026, 1, 1, tzinfo=UTC), payload_json="{}", headers={}))


FOREIGN = unseal(f'{{"eventId":"{EVENT}","payload":{{}}}}')


@pytest.mark.parametrize(
    ("queue", "name", "data", "found"),
    [
        ("loyalty", "award", envelope("loyalty.award"), "loyalty.award"),
        ("points", "add", envelope("points.add"), "loyalty.award"),
        ("mail", "confirm", envelope("points.add"), "loyalty.award"),
        ("loyalty", "award", envelope("somebody.else"), "loyalty.award"),
        ("points", "add", envelope("somebody.else"), None),
        ("loyalty", "award", FOREIGN, "loyalty.award"),
        ("mail", "confirm", FOREIGN, "mail.confirm"),
        ("mail", "award", FOREIGN, None),
        ("loyalty", "loyalty.award", FOREIGN, None),
        ("loyalty", "award", None, "loyalty.award"),
        ("loyalty", "other", None, None),
    ],
)
def test_the_delivery_counts_first_then_queue_and_name(
    queue: str, name: str, data: Envelope | None, found: str | None
) -> None:
    """A renamed or moved handler gets its old deliveries; a job of another producer is found by queue and name."""
    handler = Catalogue(handlers()).find(queue, name, data)
    assert (None if handler is None else handler.consumer) == found
