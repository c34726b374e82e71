"""Carried out: claimed jobs, run under their guarantee."""

from homing.worker.worker import Worker

__all__ = ["Worker"]
