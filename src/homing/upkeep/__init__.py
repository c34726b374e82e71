"""Kept healthy: what is old and finished leaves, and who came late gets what was there before."""

from homing.upkeep.backfill import Backfill, Range
from homing.upkeep.prune import Prune
from homing.upkeep.pruned import Pruned

__all__ = ["Backfill", "Prune", "Pruned", "Range"]
