"""The files that are made, and what makes them."""

from collections.abc import Callable, Mapping
from pathlib import Path

from monitoring.board import board_text
from monitoring.page import page_text
from monitoring.rules import rules_text

_ROOT = Path(__file__).resolve().parents[1]

FILES: Mapping[Path, Callable[[], str]] = {
    _ROOT / "monitoring" / "prometheus-rules.yaml": rules_text,
    _ROOT / "monitoring" / "grafana-board.json": board_text,
    _ROOT / "docs" / "reference" / "metrics.md": page_text,
}
