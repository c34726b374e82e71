"""Verbs that go on until Ctrl-C: a screen that is drawn anew, or lines as things happen."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import RenderableType
from rich.live import Live

from homing.cli.output import make_console


@contextmanager
def until_interrupted() -> Iterator[None]:
    """Ctrl-C is how such a verb ends, and no error."""
    try:
        yield
    except KeyboardInterrupt:
        sys.stdout.flush()


@contextmanager
def drawing() -> Iterator[Callable[[RenderableType], None]]:
    """Draws one picture over the other on a terminal, which is as it was afterwards; elsewhere one below the other."""
    console = make_console()
    if not console.is_terminal:

        def put_below(picture: RenderableType) -> None:
            console.print(picture)
            sys.stdout.flush()

        yield put_below
        return
    with Live(console=console, screen=True, auto_refresh=False, vertical_overflow="crop") as live:
        yield lambda picture: live.update(picture, refresh=True)
