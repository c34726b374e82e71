"""Tables of promises in our pages: each row names the tests that make its case happen, as `folder/test_file.py::test_function`."""

import ast
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_TEST = re.compile(r"`((?:unit|property|contract|integration|crash|interop|browser|docs)/[\w/]+\.py)::(test_\w+)`")


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a table: its first cell, its text, and the tests it names, as (file below `tests`, function)."""

    name: str
    text: str
    tests: tuple[tuple[str, str], ...]


def rows_of(page: str) -> list[Row]:
    """The rows of all tables of a page below `docs`, without headings and rules."""
    lines = (ROOT / "docs" / page).read_text(encoding="utf-8").splitlines()
    tables = [line for line in lines if line.startswith("|") and not re.fullmatch(r"[|\s:-]+", line)]
    rows = [Row(line.split("|")[1].strip(), line, tuple(_TEST.findall(line))) for line in tables]
    return [row for row in rows if "test" not in row.text.split("|")[-2].strip().lower().split()]


def unproven(page: str) -> list[str]:
    """What is wrong with the page's tables: rows without a test, and tests that do not exist."""
    rows = rows_of(page)
    without = [f"{row.name}: names no test" for row in rows if not row.tests]
    missing = [
        f"{row.name}: there is no {file}::{name}"
        for row in rows
        for file, name in row.tests
        if name not in functions_of(file)
    ]
    return without + missing


@cache
def functions_of(file: str) -> frozenset[str]:
    """The names of all functions in a file of tests; none, where there is no such file."""
    path = ROOT / "tests" / file
    if not path.is_file():
        return frozenset()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
