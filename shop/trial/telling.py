"""What the logs of workers and relays tell: which runs ended how, and what was started or dispatched again."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from shop.trial.children import read_line

_DISPATCHED_AGAIN = re.compile(r"queue \S+: (\d+) jobs .*dispatched again")

Line = dict[str, object]


def finished_runs(logs: Path) -> Iterator[Line]:
    """The runs that the workers logged, one line each."""
    yield from (line for line in _lines(logs, "worker-*.log") if "outcome" in line)


def delivered_again(runs: Sequence[Line]) -> set[str]:
    """Deliveries that were started more than once: their job says so, or there is more than one run of them.

    A run that ended where it waits for children is followed by another one as a matter of course.
    """
    counted = Counter(_delivery(run) for run in runs if run["outcome"] != "waiting_children")
    return {_delivery(run) for run in runs if int(str(run.get("starts", 1))) > 1 or counted[_delivery(run)] > 1}


def dispatched_again(logs: Path) -> int:
    """How many jobs were lost and made again, as the relays say."""
    told = (_DISPATCHED_AGAIN.match(str(line.get("message"))) for line in _lines(logs, "relay-*.log"))
    return sum(int(found[1]) for found in told if found)


def _lines(logs: Path, pattern: str) -> Iterator[Line]:
    for log in sorted(logs.glob(pattern)):
        with log.open("rb") as lines:
            yield from map(read_line, lines)


def _delivery(run: Line) -> str:
    return f"{run.get('event_id')}.{run.get('consumer')}"
