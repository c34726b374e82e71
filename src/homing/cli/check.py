"""`homing check`: whether what is about to run is declared in a way that can work."""

import typer

from homing.app import Handler
from homing.cli.exits import Exit
from homing.cli.output import show_error, show_json, show_table
from homing.cli.session import session_of
from homing.config.settings import Settings
from homing.durations import describe_seconds
from homing.errors import RegistrationError

_COLUMNS = ("consumer", "topic", "guarantee", "attempts", "horizon", "time-out")


def check_verb(context: typer.Context) -> None:
    """List the handlers with their guarantees, and everything that is declared wrongly; connects to nothing."""
    session = session_of(context)
    settings = session.settings()
    handlers: tuple[Handler, ...] = ()
    try:
        app = session.application(settings)
        handlers, problems = app.handlers, app.problems()
    except RegistrationError as error:
        problems = [str(error)]
    rows = [_row(handler, settings) for handler in handlers]
    if session.json:
        show_json({"handlers": [dict(zip(_COLUMNS, row, strict=True)) for row in rows], "problems": problems})
    else:
        show_table(_COLUMNS, rows)
        for problem in problems:
            show_error(problem)
    if problems:
        raise typer.Exit(Exit.FOUND_WRONG)


def _row(handler: Handler, settings: Settings) -> tuple[str, ...]:
    policy = handler.policy
    default_seconds = settings.attempt_timeout.total_seconds()
    longest_seconds, _ = policy.backoff.horizon_seconds(policy.attempts)
    return (
        handler.consumer,
        handler.topic,
        handler.guarantee,
        str(policy.attempts),
        describe_seconds(longest_seconds),
        describe_seconds(default_seconds if policy.timeout_seconds is None else policy.timeout_seconds),
    )
