"""Before a person changes something: who it is, whether it is meant, and which ids."""

import getpass
import socket
import sys
from collections.abc import Sequence

import typer

from homing.errors import Refused
from homing.harmless import clean
from homing.ledger.actions import Person


def person(why: str | None) -> Person:
    """Whoever runs the command, as `user@host`, with the reason given."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container's user id without a name
        user = "unknown"
    return Person(clean(f"{user}@{socket.gethostname()}"), None if why is None else clean(why))


def confirm(question: str, *, yes: bool) -> None:
    """Ask on a terminal unless `--yes` was given; raises `Refused` for a no, and where nobody can be asked."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise Refused(f"{question} Nobody can be asked here: say --yes")
    if not typer.confirm(question, err=True):
        raise Refused("nothing was changed")


def read_ids(ids: Sequence[str], what: str) -> tuple[int, ...]:
    """Numbers as given, or from standard input, one a word, for `-`; anything else is a usage error that names it."""
    words = sys.stdin.read().split() if list(ids) == ["-"] else ids
    for word in words:
        if not (word.isascii() and word.isdecimal() and int(word) < 2**63):
            raise typer.BadParameter(
                f"{word!r} is no id of a {what}: give numbers, or - to read them from standard input"
            )
    return tuple(dict.fromkeys(int(word) for word in words))
