"""`homing settings`: what is in force, and where each value comes from."""

import typer

from homing.cli.output import show_json, show_table
from homing.cli.session import session_of


def settings_verb(context: typer.Context) -> None:
    """Show every setting with its source; passwords are masked."""
    session = session_of(context)
    lines = session.settings().describe()
    if session.json:
        show_json([line._asdict() for line in lines])
        return
    show_table(("setting", "value", "source"), lines)
