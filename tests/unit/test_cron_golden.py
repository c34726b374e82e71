"""What Node's cron-parser answers, kept in a table: a queue shared with Node ticks at the same instants, and where it does not, we say why."""

import json
from datetime import datetime
from pathlib import Path

import pytest

from homing.cron import parse_cron

TABLE = json.loads((Path(__file__).parents[1] / "golden" / "cron.json").read_text())
CASES: list[tuple[str, str, str, int, list[str]]] = TABLE["cases"]

MIDNIGHT_SKIPPED = (
    "the clocks skip midnight; Node leaves that day out, or its first time, and we fire once after the jump"
)
MIDNIGHT_REPEATED = "the clocks go back over midnight; Node fires the second time, we fire the first"
HALF_AN_HOUR = (
    "the clocks change by half an hour; Node skips times, falls silent or gives up, and we fire once for each time"
)
QUARTERS = "the clocks change at a quarter to the hour; Node loses an hour of quarters"
TWO_HOURS = (
    "the clocks change by two hours; Node reads the skipped hours as one, and fires in both of the repeated ones"
)

DIFFERENT = {
    "America/Havana 2026-03-08": (MIDNIGHT_SKIPPED, {"0 0 * * *", "30 0 * * *", "0 */2 * * *", "*/30 0 0 * * *"}),
    "America/Havana 2026-11-01": (MIDNIGHT_REPEATED, {"0 0 * * *", "30 0 * * *", "0 */2 * * *", "*/30 0 0 * * *"}),
    "America/Nuuk 2026-03-28": (MIDNIGHT_SKIPPED, {"45 23 * * 6"}),
    "America/Santiago 2026-09-06": (MIDNIGHT_SKIPPED, {"0 0 * * *", "30 0 * * *", "0 */2 * * *", "*/30 0 0 * * *"}),
    "Atlantic/Azores 2026-03-28": (MIDNIGHT_SKIPPED, {"0 0 * * *", "30 0 * * *", "0 */2 * * *", "*/30 0 0 * * *"}),
    "Atlantic/Azores 2026-10-24": (MIDNIGHT_REPEATED, {"0 0 * * *", "30 0 * * *", "0 */2 * * *", "*/30 0 0 * * *"}),
    "Africa/Cairo 2026-04-23": (MIDNIGHT_SKIPPED, {"0 0 * * *", "30 0 * * *", "0 */2 * * *", "*/30 0 0 * * *"}),
    "Asia/Beirut 2026-03-28": (MIDNIGHT_SKIPPED, {"0 0 * * *", "30 0 * * *", "0 */2 * * *", "*/30 0 0 * * *"}),
    "Australia/Lord_Howe 2026-04-04": (
        HALF_AN_HOUR,
        {"0 3 * * *", "0 2 * * *", "30 * * * *", "*/15 * * * *", "*/15 2 * * *", "15 1-3 * * *", "0 */2 * * *"},
    ),
    "Australia/Lord_Howe 2026-10-03": (
        HALF_AN_HOUR,
        {"0 2 * * *", "30 * * * *", "*/15 * * * *", "15 1-3 * * *", "0 */2 * * *"},
    ),
    "Pacific/Chatham 2026-04-04": (QUARTERS, {"*/15 * * * *"}),
    "Pacific/Chatham 2026-09-26": (QUARTERS, {"*/15 * * * *", "*/15 2 * * *"}),
    "Antarctica/Troll 2026-03-28": (
        TWO_HOURS,
        {"30 2 * * *", "0 2 * * *", "*/15 2 * * *", "15 1-3 * * *", "0 */2 * * *", "30 2 29 3 *"},
    ),
    "Antarctica/Troll 2026-10-24": (
        TWO_HOURS,
        {"30 2 * * *", "0 2 * * *", "*/15 2 * * *", "15 1-3 * * *", "0 */2 * * *"},
    ),
}


def test_we_fire_when_node_does_except_where_the_table_says_why() -> None:
    """Every case that differs is listed with its reason, and every listed one differs: the list is neither short nor stale."""
    differing: dict[str, set[str]] = {}
    for pattern, zone, after, count, instants in CASES:
        if _ours(pattern, zone, after, count) != instants:
            differing.setdefault(f"{zone} {after[:10]}", set()).add(pattern)
    assert differing == {place: patterns for place, (_, patterns) in DIFFERENT.items()}


@pytest.mark.parametrize("zone", ["Europe/Paris", "America/New_York"])
@pytest.mark.parametrize("pattern", ["30 2 * * *", "0 3 * * *"])
def test_both_changes_of_2026_are_in_the_table_and_agree(pattern: str, zone: str) -> None:
    """The two patterns that everybody has, in the two zones that everybody tries: three cases each, the same instants as Node's."""
    cases = [case for case in CASES if tuple(case[:2]) == (pattern, zone)]
    assert len(cases) == 3
    for _, _, after, count, instants in cases:
        assert _ours(pattern, zone, after, count) == instants


def _ours(pattern: str, zone: str, after: str, count: int) -> list[str]:
    instants = parse_cron(pattern, zone).upcoming(datetime.fromisoformat(after), count)
    return [f"{instant:%Y-%m-%dT%H:%M:%SZ}" for instant in instants]
