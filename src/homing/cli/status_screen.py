"""What `homing status` shows: one screen for people, one document for programs."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from rich.console import Group, RenderableType

from homing.cli.consumers import state_of
from homing.cli.pictures import line, picture, table
from homing.cli.words import age, moment, name, number
from homing.cli.workers import process_as_json, process_cells
from homing.harmless import clean_line
from homing.operations.overview import QueueState
from homing.operations.status import Status, Total
from homing.operations.verdict import Level, Verdict

STYLES = {Level.FLOWING: "bold green", Level.ATTENTION: "bold yellow", Level.STALLED: "bold red"}
MEANINGS = {
    Level.FLOWING: "work flows, or there is none",
    Level.ATTENTION: "work flows, and something waits for a person",
    Level.STALLED: "there is work and it stands still",
}
_LONGEST_REASON = 400
_MOST_REASONS = 20
_MOST_ROWS = 40


def draw_status(status: Status) -> Group:
    """Everything on one screen, the worst first."""
    return picture(_parts(status))


def _parts(status: Status) -> Iterator[RenderableType | None]:
    verdict = status.verdict
    yield line(
        f"{verdict.level.name} at {moment(status.overview.at)} UTC: {MEANINGS[verdict.level]}", STYLES[verdict.level]
    )
    yield from _reasons(verdict)
    yield _oldest_topics(status)
    yield _oldest_consumers(status)
    yield _failing(status)
    yield _nobodys(status)
    yield _queues(status)
    yield _processes(status)
    yield line(f"\nthe ledger holds {', '.join(map(_total, status.totals))}", "dim")


def _reasons(verdict: Verdict) -> Iterator[RenderableType]:
    for reason in verdict.reasons[:_MOST_REASONS]:
        yield line(
            f"  {reason.level.name.lower():<9}  {clean_line(str(reason), _LONGEST_REASON)}", STYLES[reason.level]
        )
    if len(verdict.reasons) > _MOST_REASONS:
        yield line(f"  and {len(verdict.reasons) - _MOST_REASONS} more")


def _oldest_topics(status: Status) -> RenderableType | None:
    topics = sorted(status.overview.topics, key=lambda topic: -topic.oldest_claimable_seconds)[:_MOST_ROWS]
    return table(
        "How old is the oldest? Events that are not routed",
        ("topic", "oldest", "due", "scheduled", "parked"),
        [
            (
                name(topic.topic),
                age(topic.oldest_claimable_seconds),
                *map(number, (topic.claimable, topic.scheduled, topic.parked)),
            )
            for topic in topics
        ],
    )


def _oldest_consumers(status: Status) -> RenderableType | None:
    busy = [consumer for consumer in status.consumers if consumer.unsettled or consumer.open_letters]
    busy.sort(key=lambda consumer: -consumer.oldest_unsettled_seconds)
    return table(
        "How old is the oldest? Deliveries that are not settled",
        ("consumer", "oldest", "unsettled", "overdue", "open letters"),
        [
            (
                name(consumer.name),
                age(consumer.oldest_unsettled_seconds),
                *map(number, (consumer.unsettled, consumer.overdue, consumer.open_letters)),
            )
            for consumer in busy[:_MOST_ROWS]
        ],
    )


def _failing(status: Status) -> RenderableType | None:
    return table(
        "What is failing? Deaths of the last hour",
        ("consumer", "error", "deaths", "open", "last", "newest letter"),
        [
            (
                name(each.consumer),
                name(each.error_class),
                number(each.deaths),
                number(each.open),
                f"{age(each.newest_seconds) or '0s'} ago",
                str(each.letter),
            )
            for each in status.failing
        ],
    )


def _nobodys(status: Status) -> RenderableType | None:
    rows = [
        (f"topic {name(topic.topic)}", number(topic.claimable + topic.scheduled), "nobody subscribes to it")
        for topic in status.unroutable
    ]
    rows += [
        (f"topic {name(topic.topic)}", number(topic.parked), "parked: no job can be made of them")
        for topic in status.overview.topics
        if topic.parked
    ]
    rows += [
        (
            f"consumer {name(consumer.name)}",
            number(consumer.unsettled),
            f"no live worker knows it{'' if consumer.retired_at is None else '; it is retired'}",
        )
        for consumer in status.unowned
    ]
    return table("What is nobody's?", ("what", "how many", "why"), rows[:_MOST_ROWS])


def _queues(status: Status) -> RenderableType | None:
    if status.overview.engine_error is not None:
        return line("\nQueues: not known, the engine does not answer", "bold red")
    return queue_table(status.overview.queues)


def queue_table(queues: tuple[QueueState, ...]) -> RenderableType | None:
    """Every queue and its jobs by state."""
    rows = []
    for queue in queues[:_MOST_ROWS]:
        if queue.counts is None:
            continue
        counts = queue.counts
        numbers = (counts.waiting + counts.prioritized, counts.active, counts.delayed, counts.failed)
        rows.append((name(queue.queue), *map("{:,}".format, numbers), "paused" if queue.paused else ""))
    return table("Queues", ("queue", "waiting", "active", "delayed", "failed", ""), rows)


def _processes(status: Status) -> RenderableType | None:
    alive = [process for process in status.overview.processes if process.alive]
    if not alive:
        return line("\nProcesses: none lives", "bold yellow")
    rows = [process_cells(process) for process in alive[:_MOST_ROWS]]
    return table("Processes that live", ("process", "role", "version", "alive", "since"), rows)


def _total(total: Total) -> str:
    return f"{'about ' if total.about else ''}{total.rows:,} {total.table}"


def status_as_json(status: Status) -> Mapping[str, Any]:
    """All of it."""
    overview, verdict = status.overview, status.verdict
    return {
        "level": verdict.level.name.lower(),
        "at": overview.at,
        "reasons": [
            {"level": reason.level.name.lower(), "text": reason.text, "remedy": reason.remedy}
            for reason in verdict.reasons
        ],
        "engine_error": overview.engine_error,
        "topics": [asdict(topic) for topic in overview.topics],
        "consumers": [asdict(consumer) | {"state": state_of(consumer)} for consumer in status.consumers],
        "failing": [asdict(each) for each in status.failing],
        "nobodys": {
            "unroutable": [topic.topic for topic in status.unroutable],
            "parked": [topic.topic for topic in overview.topics if topic.parked],
            "unowned": [consumer.name for consumer in status.unowned],
        },
        "queues": [{"queue": queue.queue, "paused": queue.paused} | dict(queue.states()) for queue in overview.queues],
        "processes": [process_as_json(process) for process in overview.processes],
        "totals": [asdict(total) for total in status.totals],
    }
