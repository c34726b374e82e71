"""The places of the dashboard, in the order in which somebody who is called at night looks at them."""

from dataclasses import dataclass


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
