"""The audit: whether the ledger is right. Everything that was recorded is somewhere, nothing is late, and no two rows contradict each other."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from homing.durations import describe_seconds
from homing.ids import first_id_at
from homing.ledger.ledger import Ledger, Row
from homing.schema.statement import load

_HERE = "homing.upkeep"
CONSUMERS = load(_HERE, "audit_consumers")
TOPICS = load(_HERE, "audit_topics")
CONTRADICTIONS = load(_HERE, "audit_contradictions")

Kind = Literal["missing", "silent death", "letter of the living", "no payload"]

_MEANING: Mapping[Kind, tuple[str, str]] = {
    "missing": (
        "events were routed without a delivery",
        "open them with `homing backfill --consumer {consumer} --topic …`, which leaves those that exist alone",
    ),
    "silent death": (
        "deliveries are dead without a letter that says why",
        "somebody deleted letters by hand: settle them as cancelled or restore the letters from a backup",
    ),
    "letter of the living": (
        "open dead letters belong to deliveries that are not dead",
        "somebody changed rows by hand: look at each with `homing deadletters show`, and dismiss it",
    ),
    "no payload": (
        "unsettled deliveries have no event any more",
        "somebody deleted events by hand: cancel the deliveries with `homing jobs cancel`",
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerCount:
    """One consumer: what became of the events of the window, and what it has to do now, however old."""

    consumer: str
    expected: int
    """Deliveries that the window's events should have: settled ones, those in flight and overdue, and missing ones."""
    done: int
    dead: int
    cancelled: int
    in_flight: int
    overdue: int
    open_letters: int
    subscribed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicCount:
    """One topic: the events of the window, and what waits for routing now, however old."""

    topic: str
    events: int
    claimable: int
    overdue: int
    scheduled: int
    parked: int
    oldest_seconds: float
    routable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Contradiction:
    """Rows of one consumer that cannot be true together, and one of them as an example."""

    kind: Kind
    consumer: str
    rows: int
    example: str

    @property
    def text(self) -> str:
        """What is wrong, with an example, and what to do."""
        what, remedy = _MEANING[self.kind]
        return f"{self.consumer}: {self.rows} {what}, as event {self.example}: {remedy.format(consumer=self.consumer)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """The state of a ledger at one moment."""

    topics: tuple[TopicCount, ...]
    consumers: tuple[ConsumerCount, ...]
    contradictions: tuple[Contradiction, ...]

    @property
    def problems(self) -> tuple[str, ...]:
        """What is overdue or contradicts itself: each a sentence with what to do."""
        return (
            *_late_topics(self.topics),
            *_late_consumers(self.consumers),
            *(each.text for each in self.contradictions),
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """What waits for a person, and is not late by itself."""
        return (*_waiting_topics(self.topics), *_waiting_consumers(self.consumers))


async def read_audit(ledger: Ledger, *, since: datetime, overdue_seconds: float) -> Audit:
    """Count; reads only. `since`: where the window of events begins that settled deliveries are counted of.

    The three questions are asked one after another, so that what moves meanwhile may be counted on either side of a move, never as late.
    """
    first_id = first_id_at(since)
    contradictions = tuple(map(_contradiction, await ledger.fetch(CONTRADICTIONS, first_id=first_id)))
    missing = {each.consumer: each.rows for each in contradictions if each.kind == "missing"}
    consumers = await ledger.fetch(CONSUMERS, first_id=first_id, overdue_seconds=overdue_seconds)
    topics = await ledger.fetch(TOPICS, first_id=first_id, overdue_seconds=overdue_seconds)
    return Audit(
        topics=tuple(map(_topic, topics)),
        consumers=tuple(_consumer(row, missing.get(row["consumer"], 0)) for row in consumers),
        contradictions=contradictions,
    )


def _late_topics(topics: tuple[TopicCount, ...]) -> Iterator[str]:
    for topic in topics:
        if topic.routable and topic.overdue:
            yield (
                f"topic {topic.topic}: {topic.overdue} events wait for routing, the oldest for {_age(topic.oldest_seconds)}: "
                "is a relay running (`homing relay`, or a worker without --no-relay), and what does its log say?"
            )


def _late_consumers(consumers: tuple[ConsumerCount, ...]) -> Iterator[str]:
    for consumer in consumers:
        if consumer.overdue:
            yield (
                f"{consumer.consumer}: {consumer.overdue} unsettled deliveries should have been compared with the engine by now: "
                "is a relay running, and does Redis answer it (`homing doctor`)?"
            )


def _waiting_topics(topics: tuple[TopicCount, ...]) -> Iterator[str]:
    for topic in topics:
        if not topic.routable and topic.claimable + topic.scheduled:
            yield f"topic {topic.topic}: {topic.claimable + topic.scheduled} events have no consumer: deploy the code that subscribes to it"
        if topic.parked:
            yield f"topic {topic.topic}: {topic.parked} events are parked: see `homing events list --state parked`, then `homing events release`"


def _waiting_consumers(consumers: tuple[ConsumerCount, ...]) -> Iterator[str]:
    for consumer in consumers:
        if consumer.open_letters:
            yield f"{consumer.consumer}: {consumer.open_letters} open dead letters: see `homing deadletters groups`"
        if not consumer.subscribed and consumer.in_flight + consumer.overdue:
            yield f"{consumer.consumer}: {consumer.in_flight + consumer.overdue} deliveries are unsettled and nothing subscribes any more"


def _age(seconds: float) -> str:
    return describe_seconds(float(round(seconds)))


def _consumer(row: Row, missing: int) -> ConsumerCount:
    settled = row["done"] + row["dead"] + row["cancelled"]
    return ConsumerCount(
        consumer=row["consumer"],
        expected=settled + row["in_flight"] + row["overdue"] + missing,
        done=row["done"],
        dead=row["dead"],
        cancelled=row["cancelled"],
        in_flight=row["in_flight"],
        overdue=row["overdue"],
        open_letters=row["open_letters"],
        subscribed=row["subscribed"],
    )


def _topic(row: Row) -> TopicCount:
    return TopicCount(
        topic=row["topic"],
        events=row["events"],
        claimable=row["claimable"],
        overdue=row["overdue"],
        scheduled=row["scheduled"],
        parked=row["parked"],
        oldest_seconds=row["oldest_seconds"],
        routable=row["routable"],
    )


def _contradiction(row: Row) -> Contradiction:
    return Contradiction(kind=row["kind"], consumer=row["consumer"], rows=row["rows"], example=row["example"])
