"""Set aside, kept: the deaths of deliveries."""

from homing.deadletters.deadletters import DeadLetters, Death, Kind
from homing.deadletters.report import ErrorReport, report_error, report_text

__all__ = ["DeadLetters", "Death", "ErrorReport", "Kind", "report_error", "report_text"]
