"""Alert rules, board and reference page: made from the table of metrics, and asking only for what exists."""

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from homing.cli.main import _VERBS
from homing.metrics import METRICS, Metric
from monitoring.alerts import GROUPS, Alert
from monitoring.board import ROWS, Panel
from monitoring.files import FILES

ROOT = Path(__file__).resolve().parents[2]
RULES = ROOT / "monitoring" / "prometheus-rules.yaml"
BOARD = ROOT / "monitoring" / "grafana-board.json"
HOWTO = ROOT / "docs" / "howto" / "alerts.md"

ALERTS = [alert for alerts in GROUPS.values() for alert in alerts]
PANELS = [panel for panels in ROWS.values() for panel in panels]

SERIES: dict[str, Metric] = {
    name: metric
    for metric in METRICS
    for name in (
        [metric.name + suffix for suffix in ("_bucket", "_count", "_sum")]
        if metric.kind == "histogram"
        else [metric.name]
    )
}
"""What an exposition calls its samples."""

OF_THE_SCRAPE = {"app", "instance"}
"""Labels that every series has, besides those of its metric."""

_SERIES = re.compile(r"homing_\w+")
_MATCHER = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)\s*\"")
_GROUPING = re.compile(r"(?:by|on)\s*\(([^)]*)\)")


def asked(expr: str) -> tuple[set[str], set[str]]:
    """The series and the labels that an expression names."""
    labels = set(_MATCHER.findall(expr))
    for names in _GROUPING.findall(expr):
        labels |= {name.strip() for name in names.split(",")}
    return set(_SERIES.findall(expr)), labels


def require_existing(expr: str) -> None:
    """Fail for a series or a label that no process exports."""
    series, labels = asked(expr)
    assert series
    assert series <= SERIES.keys(), series - SERIES.keys()
    known = OF_THE_SCRAPE.union(*(SERIES[name].labels for name in series))
    known |= {"le"} if any(name.endswith("_bucket") for name in series) else set()
    assert labels <= known, labels - known


def require_sense(expr: str) -> None:
    """Fail for a sum of what every process tells alike, and for a counter whose rate nobody takes."""
    for found in _SERIES.finditer(expr):
        metric, before = SERIES[found[0]], expr[: found.start()]
        if metric.collected:
            assert re.search(r"(max|count) by \([^)]*\) \($", before), f"{found[0]} is collected: take the max"
        elif metric.kind != "gauge":
            assert re.search(r"(rate|increase)\($", before), f"{found[0]} only grows: take its rate"


@pytest.mark.parametrize(("path", "make"), FILES.items(), ids=lambda value: getattr(value, "name", ""))
def test_a_made_file_is_up_to_date(path: Path, make: Callable[[], str]) -> None:
    """What is committed is what the tables say now."""
    assert path.read_text(encoding="utf-8") == make(), "run: python -m monitoring"


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_a_rule_asks_for_what_exists_and_says_what_to_do(alert: Alert) -> None:
    """Series, labels, and every label in the texts exist; the remedy's commands do too; the page on alerts explains it."""
    require_existing(alert.expr)
    require_sense(alert.expr)
    grouped = re.search(r"by \(([^)]*)\)", alert.expr)
    assert grouped is not None
    yields = {name.strip() for name in grouped[1].split(",")}
    assert set(re.findall(r"\$labels\.(\w+)", alert.summary + alert.remedy)) <= yields
    assert re.fullmatch(r"\d+[smh]", alert.wait)
    assert alert.summary
    assert set(re.findall(r"\bhoming ([a-z]+)\b", alert.remedy)) <= _VERBS.keys()
    assert f"### {alert.name}\n" in HOWTO.read_text(encoding="utf-8")


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel.title)
def test_a_panel_asks_for_what_exists(panel: Panel) -> None:
    """Series and labels exist, and so do those in the legend."""
    require_existing(panel.expr)
    require_sense(panel.expr)
    assert set(re.findall(r"{{(\w+)}}", panel.legend)) <= asked(panel.expr)[1]


def test_a_wrong_expression_is_found() -> None:
    """The checks above can fail: a name, a label, a sum of gauges, a naked counter."""
    for wrong in ("homing_nothing > 0", 'homing_queue_paused{topic="a"}'):
        with pytest.raises(AssertionError):
            require_existing(wrong)
    for wrong in ("sum by (app) (homing_queue_paused)", "homing_leases_lost_total > 1"):
        with pytest.raises(AssertionError):
            require_sense(wrong)


def test_the_rules_have_their_shape() -> None:
    """Line by line, the file is the YAML that Prometheus reads: groups of rules, each with its keys at their depth."""
    shape = re.compile(
        r"(?:#.*\n)+groups:\n"
        r"(?:  - name: [a-z-]+\n    rules:\n"
        r"(?:      - alert: \w+\n        expr: \|-\n          \S.*\n        for: \w+\n"
        r"        labels:\n          severity: (?:page|ticket)\n"
        r"        annotations:\n          summary: \|-\n            \S.*\n          description: \|-\n            \S.*\n)+)+"
    )
    assert shape.fullmatch(RULES.read_text(encoding="utf-8"))
    assert len({alert.name for alert in ALERTS}) == len(ALERTS)


def test_prometheus_takes_the_rules() -> None:
    """`promtool`, where the machine has it, finds nothing wrong."""
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not on this machine: the rules were checked by their shape and their names alone")
    checked = subprocess.run([promtool, "check", "rules", RULES], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_the_board_has_its_shape() -> None:
    """Panels do not overlap, have one number each, and ask the chosen source."""
    board = json.loads(BOARD.read_text(encoding="utf-8"))
    cells = [
        (x, y)
        for panel in board["panels"]
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(cells) == len(set(cells))
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"]) == len(PANELS) + len(ROWS)
    assert {variable["name"] for variable in board["templating"]["list"]} == {"source", "app"}
