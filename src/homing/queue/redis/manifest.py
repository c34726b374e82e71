"""Prints the manifest for the installed bullmq wheel: `python -m homing.queue.redis.manifest > …/scripts.json`."""

import json
import sys

from homing.queue.redis.scripts import NAMES, fingerprint, installed_version, known_scripts, read_script


def fresh_manifest() -> dict[str, dict[str, str]]:
    """The known versions, and the installed one as it lies on disk: to be committed only after the interop tests."""
    return known_scripts() | {installed_version(): {name: fingerprint(read_script(name)) for name in NAMES}}


if __name__ == "__main__":
    json.dump(fresh_manifest(), sys.stdout, indent=2)
    sys.stdout.write("\n")
