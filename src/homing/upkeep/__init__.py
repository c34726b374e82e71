"""Kept healthy: what is old and finished leaves."""

from homing.upkeep.prune import Prune

__all__ = ["Prune"]
