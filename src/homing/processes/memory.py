"""Giving back what starting up took: importing and checking leave garbage that a process would carry for months."""

import ctypes
import gc
import sys


def release_startup_memory() -> None:
    """Collect once and return free pages to the system (glibc only; elsewhere only collect); takes some milliseconds, once."""
    gc.collect()
    gc.freeze()  # what is there now stays: no later collection walks the modules again
    if sys.platform != "linux":
        return
    libc = ctypes.CDLL(None)
    if hasattr(libc, "malloc_trim"):  # glibc has it, musl has not
        libc.malloc_trim(0)
