"""Kept healthy: what is old and finished leaves."""

from homing.upkeep.prune import Prune
from homing.upkeep.pruned import Pruned

__all__ = ["Prune", "Pruned"]
