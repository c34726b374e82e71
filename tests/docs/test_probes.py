"""What the page on probes promises is what processes serve."""

import re
from pathlib import Path

from homing.cli.health import PATHS
from homing.config.settings import Settings
from homing.metrics import Metrics
from homing.operations.collector import Collector
from homing.processes.endpoint import answers_of
from homing.processes.standing import Standing
from homing.queue.memory import MemoryEngine

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "probes.md"


def test_every_path_of_the_page_is_served() -> None:
    """No more and no fewer, at the address that the page names; and the command asks for some of them."""
    text = PAGE.read_text()
    collector = Collector("shop", None, MemoryEngine())  # type: ignore[arg-type]  # nothing is asked of it
    answers = answers_of(Standing("worker"), collector, Metrics("shop").registry)
    assert set(re.findall(r"^\| `(/\w+)`", text, re.MULTILINE)) == set(answers)
    assert set(PATHS.values()) <= set(answers)
    assert str(Settings.model_fields["http_address"].default) in text
    assert all(answer().body for answer in answers.values())
