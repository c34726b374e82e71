"""The demonstration, small: it kills workers, keeps every promise, and leaves no process behind."""

import os
import re
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.crash.shop_processes import ROOT

LEDGER = re.compile(
    r"ledger: orders=30 captured_once=30 captured_twice=0 lost=0 emails_missing=0 invoices_missing=0 shipments=(\d+) points_ok=30 "
    r"redelivered=(\d+) duplicates_skipped=\d+ kills=(\d+)"
)


@pytest.mark.timeout(240)
def test_a_small_demonstration_keeps_its_promises(tmp_path: Path) -> None:
    """Thirty orders, at least three killed workers: everything once, status 0, and no process of it is left."""
    shown = subprocess.run(
        [sys.executable, "-m", "shop.demo"],
        cwd=ROOT,
        env={**os.environ, "ORDERS": "30", "SEED": "3", "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    last = shown.stdout.strip().splitlines()[-1]
    found = LEDGER.fullmatch(last)
    assert found, shown.stdout + shown.stderr
    assert shown.returncode == 0, shown.stdout + shown.stderr
    assert int(found[1]) > 30  # some orders have two parcels, and one invoice when both are on their way
    assert int(found[2]) > 0
    assert int(found[3]) >= 3
    assert re.search(r"watch it: http://127\.0\.0\.1:\d+/ \(log in as demo, password \S{12}\)", shown.stdout)
    assert "logs: " in shown.stdout.splitlines()[-2]
    left = [process for process in psutil.process_iter(["environ"]) if _is_of(process, tmp_path)]
    assert left == []


def _is_of(process: psutil.Process, folder: Path) -> bool:
    environment = process.info["environ"] or {}  # None: not ours to read
    return environment.get("TMPDIR") == str(folder)
