"""Whether a process lives and whether it works, judged from what its loops show; nothing is asked of any server."""

from collections.abc import Sequence
from dataclasses import dataclass

from homing.service import Turning


@dataclass(frozen=True, slots=True)
class Health:
    """`live`: every loop turns; a restart would not help. `ready`: new work is taken. `reasons`: what speaks against either."""

    live: bool
    ready: bool
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Blockage:
    """The event loop does not turn: for how long, and how long that may last."""

    seconds: float
    patience_seconds: float


def judge_health(
    loops: Sequence[Turning],
    *,
    draining: bool,
    paused: bool,
    away: Sequence[str] = (),
    blockage: Blockage | None = None,
    who: str = "worker",
) -> Health:
    """A server that is away makes a process unready and not dead; one that drains is live to its end.

    `paused`: nothing is claimed because the ledger does not answer. `away`: the servers that loops wait for, where they are known.
    """
    troubles = [turning.trouble for turning in loops if turning.trouble is not None]
    waits = [f"{server} does not answer" for server in away]
    waits += [f"the loop {turning.name} waits for a server" for turning in loops if turning.away and not away]
    if blockage is not None:
        late = blockage.seconds > blockage.patience_seconds
        (troubles if late else waits).append(f"the event loop has not turned for {blockage.seconds:.0f} s")
    if paused and not away:
        waits.append("the ledger does not answer")
    if draining:
        waits.append(f"the {who} is stopping")
    return Health(live=not troubles, ready=not troubles and not waits, reasons=(*troubles, *waits))
