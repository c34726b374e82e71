"""Is work flowing? A pure judgement over one look at everything: what stands still, since when, and what to do. Nothing is asked here."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

from homing.durations import describe_seconds
from homing.operations.overview import MOST, ConsumerState, Overview, QueueState, TopicState

WAITING_SECONDS = 10.0
"""How long an event or a job may wait for somebody to take it before that is a standstill."""


class Level(IntEnum):
    """How much a reason matters; the worst one is the verdict's."""

    FLOWING = 0
    """Work flows, or there is none."""
    ATTENTION = 1
    """Work flows, and something waits for a person."""
    STALLED = 2
    """There is work and it stands still."""


@dataclass(frozen=True, slots=True)
class Reason:
    """One thing that is wrong: what, with the numbers, and what to do about it."""

    level: Level
    text: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.text}: {self.remedy}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The judgement: the worst level, and every reason, worst first."""

    level: Level
    reasons: tuple[Reason, ...]


def judge(overview: Overview) -> Verdict:
    """What an operator must know of this look."""
    found = sorted(_reasons(overview), key=lambda reason: -reason.level)
    level = max((reason.level for reason in found), default=Level.FLOWING)
    return Verdict(level, tuple(found))


def _reasons(overview: Overview) -> Iterator[Reason]:
    if overview.engine_error is not None:
        yield Reason(Level.STALLED, overview.engine_error, "start it again; nothing is lost meanwhile")
    routed = any(process.routes and process.alive for process in overview.processes)
    for topic in overview.topics:
        yield from _topic(topic, routed=routed)
    for consumer in overview.consumers:
        yield from _consumer(consumer, routed=routed)
    served = {
        queue
        for process in overview.processes
        if process.alive and process.role == "worker"
        for queue in process.queues
    }
    for queue in overview.queues:
        yield from _queue(queue, served=queue.queue in served)


def _topic(topic: TopicState, *, routed: bool) -> Iterator[Reason]:
    if not topic.routable and topic.claimable:
        yield Reason(
            Level.ATTENTION,
            f"topic {topic.topic}: {_number(topic.claimable)} events and no consumer",
            "deploy the workers whose code handles it, they flow as soon as one has started",
        )
    elif topic.claimable and topic.oldest_claimable_seconds > WAITING_SECONDS:
        waits = describe_seconds(topic.oldest_claimable_seconds)
        yield Reason(
            Level.STALLED,
            f"topic {topic.topic}: {_number(topic.claimable)} events wait to be routed, the oldest for {waits}",
            "a relay lives and does not route it, read its log" if routed else _START_RELAY,
        )
    if topic.parked:
        yield Reason(
            Level.ATTENTION,
            f"topic {topic.topic}: {_number(topic.parked)} events are parked with an error",
            "read them with `homing events list --parked`, then `homing events release`",
        )


def _consumer(consumer: ConsumerState, *, routed: bool) -> Iterator[Reason]:
    if consumer.overdue:
        yield Reason(
            Level.STALLED,
            f"consumer {consumer.consumer}: {_number(consumer.overdue)} deliveries are overdue for a look",
            "the sweep of a live relay does not reach them, read its log" if routed else _START_RELAY,
        )
    if consumer.unsettled and not consumer.subscribed:
        yield Reason(
            Level.ATTENTION,
            f"consumer {consumer.consumer}: {_number(consumer.unsettled)} deliveries of a consumer that is retired or unknown",
            "bring its handler back under this name or as an alias, or cancel them",
        )
    if consumer.open_letters:
        yield Reason(
            Level.ATTENTION,
            f"consumer {consumer.consumer}: {_number(consumer.open_letters)} dead letters are open",
            "read them with `homing deadletters groups`, then redrive or dismiss them",
        )


def _queue(queue: QueueState, *, served: bool) -> Iterator[Reason]:
    if queue.counts is None:
        return
    claimable = queue.counts.waiting + queue.counts.prioritized
    if queue.paused and claimable:
        yield Reason(
            Level.ATTENTION,
            f"queue {queue.queue}: paused, and {_number(claimable)} jobs wait",
            f"`homing queues resume {queue.queue}` lets them run",
        )
    elif claimable and not served:
        yield Reason(
            Level.STALLED,
            f"queue {queue.queue}: {_number(claimable)} jobs wait and no live worker serves it",
            f"start `homing worker --queues {queue.queue}`",
        )
    elif claimable and not queue.counts.active and queue.oldest_waiting_seconds > WAITING_SECONDS:
        waits = describe_seconds(queue.oldest_waiting_seconds)
        yield Reason(
            Level.STALLED,
            f"queue {queue.queue}: {_number(claimable)} jobs wait, the oldest for {waits}, and none runs",
            "a worker lives and does not claim: look at its limits and its log",
        )


_START_RELAY = "no relay lives, start `homing worker` or `homing relay`"


def _number(count: int) -> str:
    return f"{count:,}" if count < MOST else f"{MOST:,} or more"
