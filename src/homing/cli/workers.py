"""`homing workers`: which processes live, and what each does."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from homing.cli.ledgers import open_ledger
from homing.cli.output import show_json, show_list
from homing.cli.session import session_of
from homing.cli.words import age, moment, name
from homing.config.settings import Settings
from homing.harmless import clean_line
from homing.operations.overview import ProcessState, read_processes

workers_verbs = typer.Typer(no_args_is_help=True, help="Workers and relays: look at them.", rich_markup_mode=None)

_COLUMNS = ("process", "role", "version", "alive", "since", "queues", "consumers", "does now")
_TOLD = ("live", "ready", "running", "slots")
_HOUR_SECONDS = 3600.0
_DAY_SECONDS = 86_400.0


@workers_verbs.callback()
def workers() -> None:
    """Workers and relays: look at them."""


@workers_verbs.command("list")
def list_verb(
    context: typer.Context,
    *,
    every: Annotated[bool, typer.Option("--all", help="Those of the last day, not of the last hour.")] = False,
) -> None:
    """List workers and relays with what they said in their last heartbeat, the newest first."""
    session = session_of(context)
    found = asyncio.run(_list(session.settings(), _DAY_SECONDS if every else _HOUR_SECONDS))
    if session.json:
        show_json([process_as_json(process) for process in found])
    else:
        show_list(_COLUMNS, [_cells(process) for process in found])


async def _list(settings: Settings, since_seconds: float) -> tuple[ProcessState, ...]:
    async with open_ledger(settings, "workers list") as ledger:
        return await read_processes(ledger, since_seconds)


def _cells(process: ProcessState) -> Sequence[str]:
    return (
        *process_cells(process),
        clean_line(", ".join(process.queues)),
        clean_line(", ".join(process.consumers)),
        _does(process.state),
    )


def process_cells(process: ProcessState) -> tuple[str, str, str, str, str]:
    """Who it is, what it is, its version, whether it lives, and since when it has."""
    role = "worker and relay" if process.routes and process.role == "worker" else process.role
    return (
        name(f"{process.host}:{process.pid}"),
        role,
        name(process.version),
        _stands(process),
        moment(process.started_at),
    )


def process_as_json(process: ProcessState) -> Mapping[str, Any]:
    """All that is known of it."""
    return {
        "id": process.id,
        "host": process.host,
        "pid": process.pid,
        "version": process.version,
        "role": process.role,
        "routes": process.routes,
        "alive": process.alive,
        "silent_seconds": process.silent_seconds,
        "started_at": process.started_at,
        "queues": process.queues,
        "consumers": process.consumers,
        "state": process.state,
    }


def _stands(process: ProcessState) -> str:
    """Whether it lives, and what it said of itself with its last heartbeat."""
    if not process.alive:
        return f"silent for {age(process.silent_seconds)}"
    if process.state.get("live") is False:
        return "wedged"
    return "not ready" if process.state.get("ready") is False else "yes"


def _does(state: Mapping[str, Any]) -> str:
    """What the heartbeat said beyond that it lives: runs of slots, why it is not ready, and whatever a newer version adds."""
    running, slots = _sum(state.get("running")), _sum(state.get("slots"))
    words = [] if running is None else [f"runs {running:,}" + ("" if slots is None else f" of {slots:,}")]
    words += [f"{key}={_value(value)}" for key, value in state.items() if key not in _TOLD and value]
    return clean_line(" ".join(words))


def _sum(numbers: object) -> int | None:
    """A number, or the sum of one for each queue; `None` for what is neither."""
    values = list(numbers.values()) if isinstance(numbers, Mapping) else [numbers]
    whole = [value for value in values if isinstance(value, int)]
    return sum(whole) if whole and len(whole) == len(values) else None


def _value(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
