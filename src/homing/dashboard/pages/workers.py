"""Workers and relays: which processes there are, since when, what each runs, and how its event loop does."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from starlette.responses import Response

from homing.dashboard.visit import Visit, page
from homing.operations.overview import ProcessState, read_processes

HOUR_SECONDS, DAY_SECONDS = 3600.0, 86_400.0

SLOW_SECONDS = 0.25
"""From which lag on an event loop is shown as blocked: handlers that block it hold up everything beside them."""

MOST_PROCESSES = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """What a worker does for one queue: runs, and how many it may run at once."""

    queue: str
    running: int
    slots: int | None
    parked: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Doing:
    """What a process said of itself with its last heartbeat; `lag_seconds` is `None` where it said nothing of it."""

    stands: str
    is_well: bool
    lanes: tuple[Lane, ...]
    lag_seconds: float | None
    reasons: tuple[str, ...]
    stuck: int

    @property
    def running(self) -> int:
        """Runs, over all queues."""
        return sum(lane.running for lane in self.lanes)

    @property
    def is_blocked(self) -> bool:
        """Whether something holds up its event loop."""
        return self.lag_seconds is not None and self.lag_seconds >= SLOW_SECONDS


async def show_workers(visit: Visit) -> Response:
    """The processes of the last hour, or of the last day."""
    is_day = visit.query.text("since") == "day"
    processes = await read_processes(visit.ledger, DAY_SECONDS if is_day else HOUR_SECONDS)
    shown = [(process, read_doing(process)) for process in processes[:MOST_PROCESSES]]
    return visit.page(
        "workers.html",
        processes=sorted(shown, key=lambda each: not each[0].alive),
        hidden=max(0, len(processes) - MOST_PROCESSES),
        is_day=is_day,
        routes=any(process.routes and process.alive for process in processes),
        command_line=visit.command("workers", "list", *(["--all"] if is_day else [])),
    )


def read_doing(process: ProcessState) -> Doing:
    """What the row of a process says of it, whichever version wrote it. Pure."""
    said: Mapping[str, Any] = process.state if isinstance(process.state, Mapping) else {}
    lag = said.get("lag_seconds")
    reasons = said.get("reasons")
    stands = _stands(process, said)
    return Doing(
        stands=stands,
        is_well=stands == "well",
        lanes=_lanes(process, said),
        lag_seconds=_number(lag) if _is_number(lag) else None,
        reasons=tuple(str(reason) for reason in reasons) if isinstance(reasons, list) else (),
        stuck=_count(said.get("stuck")),
    )


def _stands(process: ProcessState, said: Mapping[str, Any]) -> str:
    if not process.alive:
        return "silent"
    if said.get("live") is False:
        return "wedged"
    return "not ready" if said.get("ready") is False else "well"


def _lanes(process: ProcessState, said: Mapping[str, Any]) -> tuple[Lane, ...]:
    running, slots, parked = (_by_queue(said.get(name)) for name in ("running", "slots", "parked"))
    names = list(dict.fromkeys([*process.queues, *running])) if process.role == "worker" else []
    return tuple(
        Lane(
            queue=name,
            running=_count(running.get(name)),
            slots=_count(slots[name]) if name in slots else None,
            parked=_count(parked.get(name)),
        )
        for name in names
    )


def _by_queue(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _count(value: Any) -> int:
    return int(_number(value))


def _number(value: Any) -> float:
    return float(value) if _is_number(value) else 0.0


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 2**53


ROUTES = (page("/workers", show_workers),)
