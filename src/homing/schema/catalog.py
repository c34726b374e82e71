"""The numbered migrations that this version ships, as text: for `migrate`, for `--sql` and for other migration tools."""

import re
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.resources import files

from homing.errors import ConfigurationError
from homing.schema.statement import Statement, load

_FILE = re.compile(r"(\d{4})_(\w+)\.sql")
_TOKEN = re.compile(
    r"""--[^\n]*                    # a comment,
      | /\*.*?\*/                   # of either kind,
      | '(?:[^']|'')*'              # a text,
      | "(?:[^"]|"")*"              # a quoted name,
      | \$(\w*)\$.*?\$\1\$          # a dollar-quoted body: a semicolon inside any of them ends nothing
      | ;""",
    re.VERBOSE | re.DOTALL,
)
_PARAMETER = re.compile(r"(?<![:\w]):([a-z_][a-z_0-9]*)")


@dataclass(frozen=True, slots=True)
class Migration:
    """One step of the schema; applied once, in a transaction of its own, and never edited afterwards."""

    number: int
    name: str
    text: str

    @property
    def sha256(self) -> str:
        """The hash of the text, in hexadecimal; an applied migration must keep it."""
        return sha256(self.text.encode()).hexdigest()

    @property
    def title(self) -> str:
        """`0001_ledger`: the file's name."""
        return f"{self.number:04d}_{self.name}"


@cache
def migrations() -> tuple[Migration, ...]:
    """Every migration of this version, in order."""
    found = []
    for file in files("homing.schema").joinpath("migrations").iterdir():
        match = _FILE.fullmatch(file.name)
        if match:
            found.append(Migration(int(match[1]), match[2], file.read_text(encoding="utf-8")))
    return tuple(sorted(found, key=lambda migration: migration.number))


def statements(from_: int = 0, to: int | None = None, *, engine: str = "redis") -> list[str]:
    """The single statements that take a database from version `from_` to version `to` (`None` = the newest).

    For Alembic: `for statement in statements(0): op.execute(statement)`, in the transaction of the caller. Version 0 is a
    database without Homing. The statements keep the list of applied migrations too, so that `migrate` can take over.
    """
    to = require_version(to)
    result = [] if from_ > 0 else [_sql("create_schema").text, _sql("create_migrations").text]
    for migration in migrations():
        if from_ < migration.number <= to:
            result += split(migration.text)
            result.append(_filled(_sql("mark_migrated"), _row(migration)))
            if migration.number == 1:
                result.append(_filled(_sql("name_ledger"), {"engine": engine}))
    return result


def script(from_: int = 0, to: int | None = None, *, engine: str = "redis") -> str:
    """The same as one text for `psql`: all or nothing."""
    body = ";\n\n".join(statements(from_, to, engine=engine))
    return f"-- Homing's tables from version {from_} to {require_version(to)}, for the engine {engine}.\nBEGIN;\n\n{body};\n\nCOMMIT;\n"


def latest() -> int:
    """The version of the schema that this code was written for."""
    return migrations()[-1].number


def require_version(to: int | None) -> int:
    """`to`, or the newest version for `None`; raises `ConfigurationError` for a version that this code does not have."""
    if to is not None and not 1 <= to <= latest():
        raise ConfigurationError(
            f"--to {to} is no version of the schema: give a number from 1 to {latest()}, or leave it out"
        )
    return latest() if to is None else to


def split(text: str) -> list[str]:
    """The statements of `text`, without the semicolons and comments between them."""
    found, start = [], 0
    for token in _TOKEN.finditer(text):
        if token[0] == ";":
            found.append(text[start : token.start()])
            start = token.end()
    found.append(text[start:])
    return [bare for bare in (_without_comments(part) for part in found) if bare]


def literal(value: str | int) -> str:
    """A value as SQL text; for statements that are printed, never for ones that Homing runs."""
    return str(value) if isinstance(value, int) else "'" + value.replace("'", "''") + "'"


def _without_comments(part: str) -> str:
    bare = _TOKEN.sub(lambda token: "" if token[0].startswith(("--", "/*")) else token[0], part)
    return "\n".join(line.rstrip() for line in bare.strip().splitlines() if line.strip())


def _row(migration: Migration) -> dict[str, str | int]:
    return {"number": migration.number, "name": migration.name, "sha256": migration.sha256}


def _filled(statement: Statement, values: dict[str, str | int]) -> str:
    return _PARAMETER.sub(lambda found: literal(values[found[1]]), statement.text)


def _sql(verb: str) -> Statement:
    return load("homing.schema", verb)
