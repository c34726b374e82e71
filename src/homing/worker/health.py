"""Whether a worker lives and whether it takes jobs, judged from what its loops show; nothing is asked of any server."""

from collections.abc import Sequence
from dataclasses import dataclass

from homing.service import Turning


@dataclass(frozen=True, slots=True)
class Health:
    """`live`: every loop turns; a restart would not help. `ready`: new jobs are claimed. `reasons`: what speaks against either."""

    live: bool
    ready: bool
    reasons: tuple[str, ...]


def judge_health(loops: Sequence[Turning], *, draining: bool, paused: bool) -> Health:
    """A server that is away makes a worker unready and not dead; one that drains is live to its end.

    `paused`: nothing is claimed because the ledger does not answer.
    """
    troubles = [turning.trouble for turning in loops if turning.trouble is not None]
    waits = [f"the loop {turning.name} waits for a server" for turning in loops if turning.away]
    if paused:
        waits.append("the ledger does not answer")
    if draining:
        waits.append("the worker is stopping")
    return Health(live=not troubles, ready=not troubles and not waits, reasons=(*troubles, *waits))
