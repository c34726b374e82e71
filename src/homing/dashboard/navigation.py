"""The places of the dashboard, in the order in which somebody who is called at night looks at them."""

from dataclasses import dataclass

from homing.dashboard.lookout import Seen
from homing.operations.verdict import Level


@dataclass(frozen=True, slots=True)
class Place:
    """One entry of the navigation: its title, its path, the key that leads there after `g`, and other paths of it."""

    title: str
    path: str
    key: str
    others: tuple[str, ...] = ()

    def is_here(self, path: str) -> bool:
        """Whether a page belongs to this place."""
        return path == self.path or path.startswith(
            tuple(f"{each}/" for each in (self.path, *self.others) if each != "/")
        )


PLACES = (
    Place("Overview", "/", "o"),
    Place("Queues", "/queues", "q"),
    Place("Jobs", "/jobs", "j", ("/job", "/search", "/events", "/do")),
    Place("Outbox", "/outbox", "u"),
    Place("Dead letters", "/deadletters", "d"),
    Place("Schedules", "/schedules", "s"),
    Place("Flows", "/flows", "f"),
    Place("Workers", "/workers", "w"),
    Place("Actions", "/actions", "a"),
)


@dataclass(frozen=True, slots=True)
class Mark:
    """What stands beside a place: how bad it is, and how many wait there; 0 = no number."""

    level: Level
    count: int = 0


def marks_of(seen: Seen) -> dict[str, Mark]:
    """The marks of the places where something waits for somebody, as of the last look. Pure."""
    found = {} if seen.verdict.level is Level.FLOWING else {"/": Mark(seen.verdict.level)}
    if seen.status is None:
        return found
    letters = sum(consumer.open_letters for consumer in seen.status.consumers)
    topics = seen.status.overview.topics
    stuck = sum(topic.parked + (0 if topic.routable else topic.claimable) for topic in topics)
    counts = {"/deadletters": letters, "/outbox": stuck}
    return found | {path: Mark(Level.ATTENTION, count) for path, count in counts.items() if count}
