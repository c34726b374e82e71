"""What Homing runs on: facts are gathered, and each is judged by a pure function."""

from homing.upkeep.doctor.examination import Examination, examine_ledger
from homing.upkeep.doctor.finding import Finding, Level
from homing.upkeep.doctor.tracing import examine_tracing

__all__ = ["Examination", "Finding", "Level", "examine_ledger", "examine_tracing"]
