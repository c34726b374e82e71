"""Jobs set aside because the worker that claimed them does not know them: what a worker must know to run them."""

from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True, slots=True, order=True)
class ParkedKind:
    """What the jobs of one kind want of a worker.

    `job`: their name, as their producer wrote it. `consumer`: the one that their deliveries name, empty for jobs of somebody else.
    `version`: that of their payload where it is newer than the code that met it; 0 where nobody knew the name.
    """

    job: str
    consumer: str = ""
    version: int = 0

    @property
    def label(self) -> str:
        """The kind as one word, which `read` understands; a consumer has no colon, a job name may have any."""
        return f"{self.version}:{self.consumer}:{self.job}"

    @classmethod
    def read(cls, label: str) -> Self:
        """The kind behind a label; `ValueError` for anything else."""
        version, consumer, job = label.split(":", 2)
        return cls(job, consumer, int(version))


@dataclass(frozen=True, slots=True, order=True)
class ParkedJobs:
    """How many jobs of a kind wait for a worker that knows them."""

    kind: ParkedKind
    count: int
