"""The command line: options, verbs, and the one place where errors become messages and exit codes."""

import sys
import traceback
from collections.abc import Iterator, MutableMapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from homing.cli.exits import Exit, exit_for
from homing.cli.saying import show_error
from homing.cli.session import Session

_VERBOSE = ("-v", "--verbose")

_VERBS = {
    "migrate": ("migrate", "migrate_verb"),
    "settings": ("settings", "settings_verb"),
    "check": ("check", "check_verb"),
    "doctor": ("doctor", "doctor_verb"),
    "audit": ("audit", "audit_verb"),
    "health": ("health", "health_verb"),
    "dev": ("dev", "dev_verb"),
    "worker": ("worker", "worker_verb"),
    "relay": ("worker", "relay_verb"),
    "dashboard": ("dashboard", "dashboard_verb"),
    "status": ("status", "status_verb"),
    "top": ("top", "top_verb"),
    "tail": ("tail", "tail_verb"),
    "enqueue": ("enqueue", "enqueue_verb"),
    "pause": ("queues", "pause_verb"),
    "resume": ("queues", "resume_verb"),
    "redrive": ("redrive", "redrive_verb"),
    "backfill": ("backfill", "backfill_verb"),
    "prune": ("prune", "prune_verb"),
    "events": ("events", "events_verbs"),
    "consumers": ("consumers", "consumers_verbs"),
    "workers": ("workers", "workers_verbs"),
    "actions": ("actions", "actions_verbs"),
    "jobs": ("jobs", "jobs_verbs"),
    "queues": ("queues", "queues_verbs"),
    "schedules": ("schedules", "schedules_verbs"),
    "deadletters": ("deadletters", "deadletters_verbs"),
}
"""Each verb, with its module in this package and what it is called there: a function, or a group of verbs."""


class Verbs(MutableMapping[str, Any]):
    """Verbs that are imported when they are asked for: a probe each second should not pay for what it does not run."""

    def __init__(self) -> None:
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            module, attribute = _VERBS[name]
            self._made[name] = _command(name, getattr(import_module(f"homing.cli.{module}"), attribute))
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(_VERBS)

    def __len__(self) -> int:
        return len(_VERBS)

    def __setitem__(self, name: str, command: Any) -> None:
        self._made[name] = command

    def __delitem__(self, name: str) -> None:
        del self._made[name]


class LazyGroup(TyperGroup):
    """The group of all verbs."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.commands = Verbs()


def _command(name: str, verb: Any) -> Any:
    if isinstance(verb, typer.Typer):
        group = typer.main.get_group(verb)
        group.name = name
        return group
    alone = typer.Typer(**_TERMS)
    alone.command(name)(verb)
    return typer.main.get_command(alone)


_TERMS: dict[str, Any] = {"add_completion": False, "pretty_exceptions_enable": False, "rich_markup_mode": None}

commands = typer.Typer(
    name="homing",
    cls=LazyGroup,
    help="Background jobs that always arrive, and count once.",
    no_args_is_help=True,
    **_TERMS,
)


@commands.callback()
def shared_options(
    context: typer.Context,
    *,
    app: Annotated[str | None, typer.Option(help="The app object, as module:attribute.", metavar="MODULE:ATTR")] = None,
    config: Annotated[Path | None, typer.Option(help="A TOML file instead of homing.toml.", metavar="FILE")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    verbose: Annotated[bool, typer.Option(*_VERBOSE, help="Log more, and show tracebacks.")] = False,
) -> None:
    """Keep what was said before the verb."""
    context.obj = Session(app=app, config=config, json=json, verbose=verbose)


def run() -> None:
    """The entry of the `homing` command."""
    sys.exit(main(sys.argv[1:]))


def main(arguments: Sequence[str]) -> int:
    """Run one verb and return its exit code; errors become one message on stderr."""
    try:
        commands(args=list(arguments), prog_name="homing")
    except SystemExit as end:  # how typer ends: usage errors, interrupts, and the codes of the verbs
        return _code(end.code)
    except Exception as error:  # noqa: BLE001 - the boundary: nothing above could report it
        return _report(error, verbose=any(option in arguments for option in _VERBOSE))
    return Exit.DONE


def _code(code: object) -> int:
    return int(code) if isinstance(code, int) else Exit.DONE if code is None else Exit.FOUND_WRONG


def _report(error: Exception, *, verbose: bool) -> int:
    code = exit_for(error)
    if verbose or code is Exit.INTERNAL:
        traceback.print_exception(error)
    show_error(str(error) or type(error).__name__)
    return code
