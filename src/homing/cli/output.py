"""What verbs print: tables for people, and what needs no table (`saying`), which loads no rich."""

import shutil
import sys
from collections.abc import Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table

from homing.cli.saying import show_error, show_json, show_text

__all__ = ["make_console", "show_error", "show_json", "show_list", "show_table", "show_text"]

_NO_TERMINAL_WIDTH = 200
_ANY_WIDTH = 10_000


def make_console(width_without_terminal: int = _NO_TERMINAL_WIDTH) -> Console:
    """Where verbs draw: text is taken as it is, and has colours on a terminal alone."""
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else width_without_terminal
    return Console(file=sys.stdout, width=width, highlight=False, markup=False, emoji=False)


def show_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Aligned columns; never cut off when the output goes to a file or a pipe."""
    table = Table(*columns, box=None, pad_edge=False, show_edge=False)
    for row in rows:
        table.add_row(*row)
    make_console().print(table)


def show_list(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """One line a row, every cell whole so that it can be copied; on a terminal the last one is cut where the line ends."""
    table = Table(box=None, pad_edge=False, show_edge=False)
    for column, cells in zip(columns, zip(columns, *rows, strict=True), strict=True):
        last = column == columns[-1]
        table.add_column(column, no_wrap=True, min_width=None if last else max(map(cell_len, cells)))
    for row in rows:
        table.add_row(*row)
    console = make_console(_ANY_WIDTH)
    console.print(table, crop=console.width < _ANY_WIDTH)
