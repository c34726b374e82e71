"""What verbs say: text and one JSON document on stdout, errors on stderr."""

import json
import re

import typer

_CONTROL = re.compile(r"[\x7f-\x9f]")  # JSON itself escapes those below the blank, and these stand in its texts alone


def show_json(value: object) -> None:
    """One JSON document on one line, in which whatever a terminal would obey is written as its number."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    typer.echo(_CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text))


def show_text(text: str) -> None:
    """One line on stdout."""
    typer.echo(text)


def show_error(text: str) -> None:
    """One message on stderr."""
    typer.echo(f"homing: {text}", err=True)
