"""SQL as files: one statement a file, named by its verb, with its parameters by name and a contract on top.

A file uses `:name` parameters. Drivers want other spellings: `$1` (asyncpg), `%(name)s` (psycopg), `:name` (SQLAlchemy's
`text`). The spelling is the only thing that is changed, once, when the file is loaded; no statement is ever put together
from pieces, and no value ever becomes part of one.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

_COMMENT = re.compile(r"--[^\n]*")
_PARAMETER = re.compile(r"(?<![:\w]):([a-z_][a-z_0-9]*)")


@dataclass(frozen=True, slots=True)
class Statement:
    """One SQL statement in the spellings of the drivers."""

    name: str
    contract: str
    text: str
    """As written, without comments, `:name` parameters: for SQLAlchemy's `text`."""
    numbered: str
    """With `$1 … $n`: for asyncpg and psycopg's raw cursors."""
    pyformat: str
    """With `%(name)s`: for psycopg."""
    parameters: tuple[str, ...]
    """The parameters in the order of their numbers."""

    def arguments(self, values: Mapping[str, object]) -> tuple[object, ...]:
        """The values in the order of `$1 … $n`; a missing or surplus name is a `TypeError`."""
        if values.keys() != set(self.parameters):
            raise TypeError(f"{self.name} takes {sorted(self.parameters)}, not {sorted(values)}")
        return tuple(values[name] for name in self.parameters)


def parse(name: str, source: str) -> Statement:
    """Make a statement of the text of a file."""
    contract = "\n".join(line.removeprefix("--").strip() for line in source.splitlines() if line.startswith("--"))
    text = _COMMENT.sub("", source).strip().removesuffix(";")
    parameters = tuple(dict.fromkeys(_PARAMETER.findall(text)))
    return Statement(
        name=name,
        contract=contract,
        text=text,
        numbered=_PARAMETER.sub(lambda found: f"${parameters.index(found[1]) + 1}", text),
        pyformat=_PARAMETER.sub(r"%(\1)s", text.replace("%", "%%")),
        parameters=parameters,
    )


@cache
def load(package: str, verb: str) -> Statement:
    """Load `sql/<verb>.sql` that lies beside the modules of `package`."""
    source = files(package).joinpath("sql", f"{verb}.sql").read_text(encoding="utf-8")
    return parse(f"{package}/sql/{verb}.sql", source)
