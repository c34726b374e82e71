"""`make bench`: every benchmark, one after another. Nothing is asserted: numbers belong to a machine, ratios travel."""

import subprocess
import sys

NAMES = ("recording", "latency", "orders", "engine")


def main() -> int:
    """Run each in a process of its own; the status of the last one that failed."""
    status = 0
    for name in NAMES:
        print(f"── {name} " + "─" * (76 - len(name)), flush=True)
        status = subprocess.run([sys.executable, "-m", f"benchmarks.{name}"], check=False).returncode or status
    return status


if __name__ == "__main__":
    sys.exit(main())
