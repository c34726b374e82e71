"""What is to be done about a queue's schedules, from what is written down and what the engine holds."""

import pytest

from homing.scheduler.planning import OVERDUE_MS, Known, Plan, plan

NOW = 10_000_000


@pytest.mark.parametrize(
    ("row", "due", "expected"),
    [
        (Known("s", by_code=True, paused=False, next_ms=NOW), {"s": NOW}, Plan()),
        (Known("s", by_code=True, paused=False, next_ms=None), {}, Plan(push=["s"])),
        (Known("s", by_code=False, paused=False, next_ms=NOW), {}, Plan(forget=["s"])),
        (Known("s", by_code=False, paused=True, next_ms=NOW), {}, Plan()),
        (Known("s", by_code=True, paused=True, next_ms=NOW), {"s": NOW}, Plan(take=["s"])),
        (Known("s", by_code=False, paused=False, next_ms=NOW), {"s": NOW + 1}, Plan(read=["s"])),
        (Known("s", by_code=True, paused=False, next_ms=NOW - OVERDUE_MS), {"s": NOW - OVERDUE_MS}, Plan()),
        (Known("s", by_code=True, paused=False, next_ms=1), {"s": 1}, Plan(overdue=["s"])),
        (Known("s", by_code=True, paused=False, next_ms=NOW), {"s": NOW, "t": NOW}, Plan(adopt=["t"])),
    ],
)
def test_each_difference_has_its_remedy(row: Known, due: dict[str, int], expected: Plan) -> None:
    """Lacking, paused, made by others, removed by others, moved on, overdue."""
    assert plan([row], due, NOW) == expected


def test_the_first_look_reads_everything_that_is_held() -> None:
    """But what is paused is not held, and what is lacking cannot be read."""
    rows = [Known(name, by_code=True, paused=name == "p", next_ms=NOW) for name in ("a", "b", "p")]
    assert plan(rows, {"a": NOW}, NOW, whole=True) == Plan(push=["b"], read=["a"])
