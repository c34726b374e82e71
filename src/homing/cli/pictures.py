"""Pieces that screens are put together from: a headline, lines, and tables, all of them of plain text."""

from collections.abc import Iterable, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text


def picture(parts: Iterable[RenderableType | None]) -> Group:
    """The parts below each other, without those that are nothing."""
    return Group(*(part for part in parts if part is not None))


def line(text: str, style: str = "") -> Text:
    """One line of text in a style that only a terminal shows."""
    return Text(text, style=style)


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> RenderableType | None:
    """A table under its title; nothing without rows."""
    if not rows:
        return None
    drawn = Table(box=None, pad_edge=False, show_edge=False, header_style="dim")
    for column in columns:
        drawn.add_column(Text(column), overflow="fold")
    for row in rows:
        drawn.add_row(*map(Text, row))
    return Group(Text(f"\n{title}", style="bold"), drawn)
