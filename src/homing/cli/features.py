"""Features whose packages are extras: imported when their verb runs, so that the other verbs need neither them nor the time."""

import importlib
from typing import Any

from homing.errors import MissingExtraError


def feature(module: str, name: str, *, verb: str, extra: str) -> Any:
    """`name` from `module`; a package that is not installed is a `MissingExtraError` with the pip line."""
    try:
        return getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "homing":
            raise
        raise MissingExtraError(f"`homing {verb}`", extra) from error
