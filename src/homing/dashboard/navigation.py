"""The places of the dashboard, in the order in which somebody who is called at night looks at them."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Place:
    """One entry of the navigation: its title, its path, and the key that leads there after `g`."""

    title: str
    path: str
    key: str

    def is_here(self, path: str) -> bool:
        """Whether a page belongs to this place."""
        return path == self.path or (self.path != "/" and path.startswith(f"{self.path}/"))


PLACES = (
    Place("Overview", "/", "o"),
    Place("Queues", "/queues", "q"),
    Place("Jobs", "/jobs", "j"),
)
