"""The soak, small: every fault there is, once, and every promise kept."""

import os
import re
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.crash.shop_processes import ROOT

LEDGER = re.compile(
    r"ledger: orders=40 captured_once=40 captured_twice=0 lost=0 emails_missing=0 invoices_missing=0 shipments=[4-9]\d points_ok=40 "
    r"redelivered=\d+ duplicates_skipped=\d+ redispatched=\d+ asked_again=\d+ kills=3 freezes=2 flushes=1 valkey_kills=1 "
    r"valkey_freezes=1 valkey_cuts=1 postgres_restarts=1 postgres_crashes=1 partner_faults=5 pruned=[1-9]\d* seed=1"
)


@pytest.mark.timeout(420)
def test_a_small_soak_keeps_every_promise_under_every_fault(tmp_path: Path) -> None:
    """Forty orders while everything fails once: each counts once, the plan was carried out, and no process of it is left."""
    shown = subprocess.run(
        [sys.executable, "-m", "shop.soak", "--orders=40", "--seconds=15", "--seed=1"],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert LEDGER.fullmatch(shown.stdout.strip().splitlines()[-1]), shown.stdout + shown.stderr
    assert shown.returncode == 0, shown.stdout + shown.stderr
    left = [process for process in psutil.process_iter(["environ"]) if _is_of(process, tmp_path)]
    assert left == []


def _is_of(process: psutil.Process, folder: Path) -> bool:
    environment = process.info["environ"] or {}  # None: not ours to read
    return environment.get("TMPDIR") == str(folder)
