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
from homing.deadletters.report import clean_line
from homing.operations.overview import ProcessState, read_processes

workers_verbs = typer.Typer(no_args_is_help=True, help="Workers and relays: look at them.", rich_markup_mode=None)

_COLUMNS = ("process", "role", "version", "alive", "since", "queues", "consumers", "does now")
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
    alive = "yes" if process.alive else f"silent for {age(process.silent_seconds)}"
    return name(f"{process.host}:{process.pid}"), role, name(process.version), alive, moment(process.started_at)


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


def _does(state: Mapping[str, Any]) -> str:
    """What the heartbeat said, `name=value` each; whatever a newer version says is shown likewise."""
    return clean_line(" ".join(f"{key}={_value(value)}" for key, value in state.items()))


def _value(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
