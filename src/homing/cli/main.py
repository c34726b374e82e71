"""The command line: options, verbs, and the one place where errors become messages and exit codes."""

import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from homing.cli.actions import actions_verbs
from homing.cli.audit import audit_verb
from homing.cli.backfill import backfill_verb
from homing.cli.check import check_verb
from homing.cli.consumers import consumers_verbs
from homing.cli.dashboard import dashboard_verb
from homing.cli.deadletters import deadletters_verbs
from homing.cli.dev import dev_verb
from homing.cli.doctor import doctor_verb
from homing.cli.enqueue import enqueue_verb
from homing.cli.events import events_verbs
from homing.cli.exits import Exit, exit_for
from homing.cli.health import health_verb
from homing.cli.jobs import jobs_verbs
from homing.cli.migrate import migrate_verb
from homing.cli.output import show_error
from homing.cli.prune import prune_verb
from homing.cli.queues import pause_verb, queues_verbs, resume_verb
from homing.cli.redrive import redrive_verb
from homing.cli.schedules import schedules_verbs
from homing.cli.session import Session
from homing.cli.settings import settings_verb
from homing.cli.status import status_verb
from homing.cli.tail import tail_verb
from homing.cli.top import top_verb
from homing.cli.worker import relay_verb, worker_verb
from homing.cli.workers import workers_verbs

_VERBOSE = ("-v", "--verbose")

commands = typer.Typer(
    name="homing",
    help="Background jobs that always arrive, and count once.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
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


commands.command("migrate")(migrate_verb)
commands.command("settings")(settings_verb)
commands.command("check")(check_verb)
commands.command("doctor")(doctor_verb)
commands.command("audit")(audit_verb)
commands.command("health")(health_verb)
commands.command("dev")(dev_verb)
commands.command("worker")(worker_verb)
commands.command("relay")(relay_verb)
commands.command("dashboard")(dashboard_verb)
commands.command("status")(status_verb)
commands.command("top")(top_verb)
commands.command("tail")(tail_verb)
commands.add_typer(events_verbs, name="events")
commands.add_typer(consumers_verbs, name="consumers")
commands.add_typer(workers_verbs, name="workers")
commands.add_typer(actions_verbs, name="actions")
commands.command("enqueue")(enqueue_verb)
commands.add_typer(jobs_verbs, name="jobs")
commands.add_typer(queues_verbs, name="queues")
commands.add_typer(schedules_verbs, name="schedules")
commands.command("pause")(pause_verb)
commands.command("resume")(resume_verb)
commands.add_typer(deadletters_verbs, name="deadletters")
commands.command("redrive")(redrive_verb)
commands.command("backfill")(backfill_verb)
commands.command("prune")(prune_verb)


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
