"""Where settings come from, and in which order: gathered as found, with the place of each value, before anything is checked.

The order is: what the caller gives (the command line), `HOMING_*` variables, `homing.toml`, `[tool.homing]` in
`pyproject.toml`, the default. An empty variable counts as not set. A misspelt name is an error, never a silent default.
"""

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from homing.errors import ConfigurationError

PREFIX = "HOMING_"
UNPREFIXED = {"database_url": "DATABASE_URL", "redis_url": "REDIS_URL"}
"""The variables that other tools set, read when ours is absent."""

_INJECTED = (
    "HOMING_SERVICE_PORT",
    "HOMING_PORT_",
    "HOMING_EMBEDDED_",
)  # by Kubernetes for a service called homing; by us
_INJECTED_EXACTLY = ("HOMING_SERVICE_HOST", "HOMING_PORT")


@dataclass(frozen=True, slots=True)
class Found:
    """A value as it was found, and the place that a person would have to change."""

    value: object
    source: str


Layer = dict[str, Found]
"""Values by the path of their setting, such as `lease` or `retention.events`."""


def variable_of(path: str) -> str:
    """The environment variable of a setting: `retention.events` → `HOMING_RETENTION__EVENTS`."""
    return PREFIX + path.upper().replace(".", "__")


def did_you_mean(name: str, known: Iterable[str], *, prefix: str = "") -> str:
    """`: did you mean …?` for the nearest known name, or the list of all; a `prefix` that all share is not compared."""
    by_stem = {each.removeprefix(prefix): each for each in known}
    near = get_close_matches(name.removeprefix(prefix), by_stem, n=1, cutoff=0.6)
    return f": did you mean {by_stem[near[0]]}?" if near else f": known are {', '.join(sorted(by_stem.values()))}"


def gather(layers: Iterable[Layer]) -> Layer:
    """Merge layers setting by setting; earlier layers win."""
    merged: Layer = {}
    for layer in layers:
        for path, found in layer.items():
            merged.setdefault(path, found)
    return merged


def from_environment(environ: Mapping[str, str], paths: frozenset[str]) -> Layer:
    """The `HOMING_*` variables, their `…_FILE` forms, and `DATABASE_URL` and `REDIS_URL`; unknown ones are refused."""
    variables = {variable_of(path): path for path in paths}
    _refuse_unknown_variables(environ, variables)
    layer: Layer = {}
    unprefixed = {name: path for path, name in UNPREFIXED.items() if path in paths}
    for variable, path in (variables | unprefixed).items():  # ours first: it wins over the other tools' name
        found = _from_variable(environ, variable)
        if found is not None:
            layer.setdefault(path, found)
    return layer


def from_file(file: Path, paths: frozenset[str], *, table: tuple[str, ...] = ()) -> Layer:
    """The settings in a TOML file, under `table`; a missing file has none, an unknown key is refused."""
    if not file.is_file():
        return {}
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{file} is not valid TOML: {error}") from error
    for key in table:
        content = content.get(key, {})
    source = f"[{'.'.join(table)}] in {file.name}" if table else file.name
    return from_mapping(content, paths, source)


def from_mapping(values: Mapping[str, object], paths: frozenset[str], source: str) -> Layer:
    """Flatten nested settings to their paths; an unknown key is refused with the nearest known one."""
    layer: Layer = {}
    groups = {path.partition(".")[0] for path in paths if "." in path}
    for key, value in values.items():
        if key in groups and isinstance(value, Mapping):
            inner = {f"{key}.{name}": part for name, part in value.items()}
            layer.update(from_mapping(inner, paths, source))
        elif key not in paths:
            raise ConfigurationError(f"unknown setting {key!r} ({source}){did_you_mean(key, paths)}")
        else:
            layer[key] = Found(value, source)
    return layer


def _from_variable(environ: Mapping[str, str], variable: str) -> Found | None:
    value, file = environ.get(variable, ""), environ.get(f"{variable}_FILE", "")
    if value and file:
        raise ConfigurationError(f"{variable} and {variable}_FILE={file} are both set: unset one of them")
    if value:
        return Found(value, variable)
    if not file:
        return None
    try:
        return Found(Path(file).read_text(encoding="utf-8").rstrip("\r\n"), f"{variable}_FILE={file}")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{variable}_FILE={file} cannot be read: {error}") from error


def _refuse_unknown_variables(environ: Mapping[str, str], variables: Mapping[str, str]) -> None:
    for name in sorted(environ):
        if not name.startswith(PREFIX) or name.startswith(_INJECTED) or name in _INJECTED_EXACTLY:
            continue
        if name.removesuffix("_FILE") not in variables:
            raise ConfigurationError(f"unknown variable {name}{did_you_mean(name, variables, prefix=PREFIX)}")
