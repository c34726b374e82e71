"""The overview: is work flowing, how old is the oldest, what is failing, what is nobody's. From memory: it costs the servers nothing."""

from collections.abc import Sequence
from dataclasses import dataclass

from starlette.responses import Response

from homing.dashboard import words
from homing.dashboard.lookout import LOOK_SECONDS, Lookout, Seen, count_unowned, oldest_seconds
from homing.dashboard.visit import Visit, page
from homing.operations.status import Status
from homing.operations.verdict import Level

HEADLINES = {
    Level.FLOWING: "Work flows",
    Level.ATTENTION: "Work flows, and something waits for you",
    Level.STALLED: "Work stands still",
}
MOST_ROWS = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One of the four: the answer in a figure, what stands behind it in words, and its last quarter of an hour."""

    title: str
    figure: str
    words: str
    past: Sequence[float]
    level: Level


async def overview(visit: Visit) -> Response:
    """Everything on one page, the worst first."""
    lookout = visit.desk.lookout
    seen = lookout.seen()
    return visit.page(
        "overview.html",
        seen=seen,
        headline="Nobody knows" if seen.error else HEADLINES[seen.verdict.level],
        questions=ask(seen, lookout),
        minutes=round(len(lookout.samples) * LOOK_SECONDS / 60),
        waiting=lookout.waiting,
        most=MOST_ROWS,
        command_line=visit.command("status"),
    )


def ask(seen: Seen, lookout: Lookout) -> list[Question]:
    """The four questions; none while nothing was seen."""
    status = seen.status
    if status is None:
        return []
    return [_flowing(seen, lookout), _oldest(status, lookout), _failing(status, lookout), _nobodys(status, lookout)]


def _flowing(seen: Seen, lookout: Lookout) -> Question:
    past = [sample.settled_per_second for sample in lookout.samples]
    unsettled = sum(pace.unsettled for pace in seen.paces.values())
    return Question(
        title="Is work flowing?",
        figure=words.rate(past[-1] if past else 0.0),
        words=f"{words.bounded(unsettled)} {'delivery' if unsettled == 1 else 'deliveries'} to settle",
        past=past,
        level=seen.verdict.level if seen.verdict.level is Level.STALLED else Level.FLOWING,
    )


def _oldest(status: Status, lookout: Lookout) -> Question:
    oldest = oldest_seconds(status)
    names = {topic.topic: topic.oldest_claimable_seconds for topic in status.overview.topics}
    names |= {each.name: each.oldest_unsettled_seconds for each in status.consumers}
    name = max(names, key=lambda each: names[each], default="")
    late = any(consumer.overdue for consumer in status.consumers)
    return Question(
        title="How old is the oldest?",
        figure=words.age(oldest) if oldest >= 1 else "0s",
        words=words.cut(name, 40) if oldest >= 1 else "nothing waits",
        past=[sample.oldest_seconds for sample in lookout.samples],
        level=Level.STALLED if late else Level.FLOWING,
    )


def _failing(status: Status, lookout: Lookout) -> Question:
    deaths = sum(each.deaths for each in status.failing)
    still_open = sum(each.open for each in status.failing)
    return Question(
        title="What is failing?",
        figure=words.number(deaths),
        words=f"died within the hour, {words.number(still_open)} open" if deaths else "nothing died within the hour",
        past=[sample.dead_per_second for sample in lookout.samples],
        level=Level.ATTENTION if still_open else Level.FLOWING,
    )


def _nobodys(status: Status, lookout: Lookout) -> Question:
    unowned = count_unowned(status)
    return Question(
        title="What is nobody’s?",
        figure=words.number(unowned),
        words="topics and consumers without an owner" if unowned else "everything has an owner",
        past=[float(sample.unowned) for sample in lookout.samples],
        level=Level.ATTENTION if unowned else Level.FLOWING,
    )


ROUTES = (page("/", overview),)
