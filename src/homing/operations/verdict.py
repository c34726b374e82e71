"""Is work flowing? A pure judgement over one look at everything: what stands still, since when, and what to do. Nothing is asked here."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum

from homing.durations import describe_seconds
from homing.operations.overview import MOST, ConsumerState, Overview, ProcessState, QueueState, TopicState

WAITING_SECONDS = 8.0
"""How long an event or a job may wait for somebody to take it before that is a standstill."""


SILENT_SECONDS = 12.0
"""How long after its last heartbeat a process is suspected: more than one beat."""


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


def judge(overview: Overview, before: Overview | None = None) -> Verdict:
    """What an operator must know of this look.

    `before`: an earlier one, some seconds ago. What moved since then is late and does not stand still; without it, what is late stands.
    """
    found = sorted(_reasons(overview, before), key=lambda reason: -reason.level)
    level = max((reason.level for reason in found), default=Level.FLOWING)
    return Verdict(level, tuple(found))


def _reasons(overview: Overview, before: Overview | None) -> Iterator[Reason]:
    if overview.engine_error is not None:
        yield Reason(Level.STALLED, overview.engine_error, "start it again; nothing is lost meanwhile")
    relay = next_relay(overview.processes)
    earlier = {topic.topic: topic for topic in before.topics} if before is not None else {}
    for topic in overview.topics:
        yield from _topic(topic, earlier.get(topic.topic), relay)
    for consumer in overview.consumers:
        yield from _consumer(consumer, relay)
    served = {
        queue
        for process in overview.processes
        if process.alive and process.role == "worker"
        for queue in process.queues
    }
    for queue in overview.queues:
        yield from _queue(queue, served=queue.queue in served)


def next_relay(processes: Iterable[ProcessState]) -> ProcessState | None:
    """The routing process that was heard last, of those that count as alive."""
    return min((one for one in processes if one.routes and one.alive), key=lambda one: one.silent_seconds, default=None)


def has_moved(topic: TopicState, before: TopicState | None) -> bool:
    """Whether something of the topic was routed between two looks."""
    if before is None or not before.claimable:
        return before is not None
    return topic.oldest_claimable_at != before.oldest_claimable_at or topic.claimable < before.claimable


def _topic(topic: TopicState, before: TopicState | None, relay: ProcessState | None) -> Iterator[Reason]:
    if not topic.routable and topic.claimable:
        yield Reason(
            Level.ATTENTION,
            f"topic {topic.topic}: {_number(topic.claimable)} events and no consumer",
            "deploy the workers whose code handles it, they flow as soon as one has started",
        )
    elif topic.claimable and topic.oldest_claimable_seconds > WAITING_SECONDS:
        waits = describe_seconds(topic.oldest_claimable_seconds)
        text = f"topic {topic.topic}: {_number(topic.claimable)} events wait to be routed, the oldest for {waits}"
        if relay is not None and has_moved(topic, before):
            yield Reason(Level.ATTENTION, text, "they move, and the relay catches up")
        else:
            yield Reason(Level.STALLED, text, _relay_remedy(relay, "does not route it"))
    if topic.parked:
        yield Reason(
            Level.ATTENTION,
            f"topic {topic.topic}: {_number(topic.parked)} events are parked with an error",
            "read them with `homing events list --state parked`, then `homing events release`",
        )


def _consumer(consumer: ConsumerState, relay: ProcessState | None) -> Iterator[Reason]:
    if consumer.overdue:
        yield Reason(
            Level.STALLED,
            f"consumer {consumer.consumer}: {_number(consumer.overdue)} deliveries are overdue for a look",
            _relay_remedy(relay, "does not reach them with its sweep"),
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
    elif claimable and queue.throttled_seconds > WAITING_SECONDS:
        yield Reason(
            Level.ATTENTION,
            f"queue {queue.queue}: throttled, and {_number(claimable)} jobs wait",
            f"the next one may start in {describe_seconds(queue.throttled_seconds)}",
        )
    elif claimable and not queue.counts.active and queue.oldest_waiting_seconds > WAITING_SECONDS:
        waits = describe_seconds(queue.oldest_waiting_seconds)
        yield Reason(
            Level.STALLED,
            f"queue {queue.queue}: {_number(claimable)} jobs wait, the oldest for {waits}, and none runs",
            "a worker lives and does not claim: look at its limits and its log",
        )


_START_RELAY = "no relay lives, start `homing worker` or `homing relay`"


def _relay_remedy(relay: ProcessState | None, fails: str) -> str:
    if relay is None:
        return _START_RELAY
    name = f"the relay in process {relay.pid} on {relay.host}"
    if relay.silent_seconds > SILENT_SECONDS:
        silence = describe_seconds(round(relay.silent_seconds))
        return f"{name} has said nothing for {silence}, is it frozen or cut off? start another one"
    if reasons := relay.state.get("reasons"):
        return f"{name} {fails}, it says: {reasons[0]}"
    return f"{name} lives and {fails}, read its log"


def _number(count: int) -> str:
    return f"{count:,}" if count < MOST else f"{MOST:,} or more"
