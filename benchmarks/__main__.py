"""`make bench`: every benchmark, one after another. Nothing is asserted: numbers belong to a machine, ratios travel.

    python -m benchmarks [NAME …]

Those that take long or fill millions of rows run only by name: `effects` (two minutes), `direct` (three minutes), `route` (two minutes, 4 GB of disk), `backlog` (three minutes, 3 GB of memory),
`jobs` (three minutes, 2 GB of memory) and `dashboard` (ten minutes, 5 GB of disk, 2 GB of memory). For their
options run them by themselves, as in `python -m benchmarks.route --quick`.
"""

import argparse
import subprocess
import sys

NAMES = ("recording", "latency", "orders", "engine")
LONG = ("effects", "direct", "route", "backlog", "jobs", "dashboard")


def main() -> int:
    """Run each in a process of its own; the status of the last one that failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", choices=[*NAMES, *LONG, []], metavar="NAME")
    status = 0
    for name in parser.parse_args().names or NAMES:
        print(f"── {name} " + "─" * (76 - len(name)), flush=True)
        status = subprocess.run([sys.executable, "-m", f"benchmarks.{name}"], check=False).returncode or status
    return status


if __name__ == "__main__":
    sys.exit(main())
