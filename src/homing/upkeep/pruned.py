"""What pruning took, by what it was."""

from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    """How many rows left. `lost`: open dead letters past their window, which nobody can redrive any more."""

    events: int = 0
    deliveries: int = 0
    inbox: int = 0
    letters: int = 0
    lost: int = 0
    workers: int = 0

    def __add__(self, other: "Pruned") -> "Pruned":
        return Pruned(**{field.name: getattr(self, field.name) + getattr(other, field.name) for field in fields(self)})

    @property
    def rows(self) -> int:
        """All of them."""
        return sum(getattr(self, field.name) for field in fields(self))

    @property
    def by_table(self) -> dict[str, int]:
        """The same by table, for metrics."""
        return {
            "outbox_events": self.events,
            "deliveries": self.deliveries + self.inbox,
            "dead_letters": self.letters + self.lost,
            "workers": self.workers,
        }

    def __str__(self) -> str:
        """`3 events, 6 deliveries`, without what is zero."""
        counts = {
            "events": self.events,
            "deliveries": self.deliveries,
            "jobs of other producers": self.inbox,
            "closed dead letters": self.letters,
            "open dead letters": self.lost,
            "silent processes": self.workers,
        }
        return ", ".join(f"{count:,} {what}" for what, count in counts.items() if count) or "nothing"
