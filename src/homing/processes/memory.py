"""Giving back what starting up took: importing and checking leave garbage that a process would carry for months."""

import ctypes
import gc
import sys

_YOUNG_OBJECTS = 10_000
"""New objects between two looks for cycles. A job is about thirty that live a few milliseconds and are freed without a look: at Python's
700, every twentieth job paid for one."""


def release_startup_memory() -> None:
    """Collect once and return free pages to the system (glibc only; elsewhere only collect); takes some milliseconds, once."""
    gc.collect()
    gc.set_threshold(_YOUNG_OBJECTS, *gc.get_threshold()[1:])
    gc.freeze()  # what is there now stays: no later collection walks the modules again
    if sys.platform != "linux":
        return
    libc = ctypes.CDLL(None)
    if hasattr(libc, "malloc_trim"):  # glibc has it, musl has not
        libc.malloc_trim(0)
