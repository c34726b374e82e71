"""The two statements of a batch, and which of its runs they settled."""

from collections.abc import Sequence
from typing import Any

from homing.schema.statement import load
from homing.worker.endings import Returned
from homing.worker.run import Run
from homing.worker.settling import kept_result

SETTLE_BATCH = load("homing.worker", "settle_batch")
FINISH_BATCH = load("homing.worker", "finish_batch")


def settle_values(runs: Sequence[Run]) -> dict[str, Any]:
    """What `SETTLE_BATCH` takes."""
    return {
        "event_ids": [run.event_id for run in runs],
        "consumers": [run.consumer for run in runs],
        "generations": [run.generation for run in runs],
    }


def finish_values(members: Sequence[Run], results: Sequence[Returned]) -> dict[str, Any]:
    """What `FINISH_BATCH` takes."""
    return {
        "event_ids": [run.event_id for run in members],
        "consumers": [run.consumer for run in members],
        "results": [kept_result(result.result) for result in results],
    }


def first_of_each(runs: Sequence[Run], rows: Sequence[dict[str, Any]]) -> list[int]:
    """The place of the first run of every row that was settled.

    A job that was dispatched again may stand in the batch beside its first run: it goes alone, and finds the row done.
    """
    left = {(row["event_id"], row["consumer"], row["generation"]) for row in rows}
    places = []
    for place, run in enumerate(runs):
        key = (run.event_id, run.consumer, run.generation)
        if key in left:
            left.remove(key)
            places.append(place)
    return places
