"""The guarantees by name, put together for one process: a worker, or the child that runs a suspect."""

from collections.abc import Mapping
from typing import Any

from homing.app.handlers import Guarantee as GuaranteeName
from homing.app.handlers import Kind
from homing.clock import Clock
from homing.ledger.ledger import Ledger
from homing.worker.batches import BatchAtLeastOnce, BatchOnce, Guarantee
from homing.worker.calling import Caller
from homing.worker.gating import Gatekeeper
from homing.worker.performing import AtLeastOnce, Once
from homing.worker.settling import Settler
from homing.worker.transactions import AnySource


def make_guarantees(
    *,
    ledger: Ledger,
    gate: Gatekeeper,
    sources: Mapping[tuple[Any, Kind], AnySource],
    caller: Caller,
    clock: Clock,
) -> dict[GuaranteeName, Guarantee]:
    """How runs are performed, by what their handlers promise."""
    return {
        "once": BatchOnce(Once(gate, ledger, sources, caller, clock), sources, caller),
        "at least once": BatchAtLeastOnce(AtLeastOnce(gate, Settler(ledger), caller), gate, caller),
    }
