"""Every delivery counted: the rows that judge what happened."""

from homing.ledger.gate import Asked, Asking, Decision, Row, dead_mark, decide
from homing.ledger.ledger import Ledger
from homing.ledger.look import Finding, find

__all__ = ["Asked", "Asking", "Decision", "Finding", "Ledger", "Row", "dead_mark", "decide", "find"]
