"""The page of all commands, made from the commands themselves: `python -m tests.docs.commands_page` writes it anew."""

from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any

import typer

from homing.cli.exits import Exit
from homing.cli.main import commands

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "commands.md"

_HEAD = """# Commands

Made from the commands themselves with `python -m tests.docs.commands_page`; what `homing VERB --help` says is here, too.

Options before the verb hold for every one. `--json` prints JSON for programs, one document, with names that stay. What changes something asks,
or takes `--yes`; where ids are taken, `-` reads them from standard input.

| exit code | meaning |
|---|---|
"""
_MEANINGS = {
    Exit.DONE: "done, or stopped in good order",
    Exit.FOUND_WRONG: "looked for something wrong and found it",
    Exit.USAGE: "the command line cannot be read",
    Exit.CONFIGURATION: "a setting, the code or the schema cannot work as it is",
    Exit.SERVER: "a server does not answer, or is the wrong one",
    Exit.REFUSED: "refused: it wants `--yes` or `--force`, would do nothing, or is not for production",
    Exit.NO_SUCH_ID: "the id names nothing",
    Exit.INTERNAL: "a mistake in Homing; the traceback says where",
    Exit.HARD_STOP: "stopped before the running jobs had ended; they were given back",
    Exit.STUCK: "a background loop had died or was stuck",
    Exit.INTERRUPTED: "the second SIGINT",
    Exit.TERMINATED: "the second SIGTERM",
}


def page() -> str:
    """The whole page."""
    codes = "".join(f"| {code.value} | {_MEANINGS[code]} |\n" for code in Exit)
    root = typer.main.get_command(commands)
    return f"{_HEAD}{codes}\n{_section('homing', root)}" + "".join(_sections("homing", root))


def verbs(root: Any = None, name: str = "homing") -> Iterator[str]:
    """Every command that can be run, as it is typed."""
    root = root or typer.main.get_command(commands)
    for word, command in root.commands.items():
        if hasattr(command, "commands"):
            yield from verbs(command, f"{name} {word}")
        else:
            yield f"{name} {word}"


def _sections(name: str, group: Any) -> Iterator[str]:
    for word, command in group.commands.items():
        if command.hidden:
            continue
        if hasattr(command, "commands"):
            yield from _sections(f"{name} {word}", command)
        else:
            yield "\n" + _section(f"{name} {word}", command)


def _section(name: str, command: Any) -> str:
    shown = [
        parameter
        for parameter in command.params
        if parameter.name != "help" and not getattr(parameter, "hidden", False)
    ]
    arguments = [parameter for parameter in shown if parameter.param_type_name == "argument"]
    usage = " ".join([name, *(_metavar(argument) for argument in arguments)])
    rows = "".join(f"| {_name(parameter)} | {_meaning(parameter)} |\n" for parameter in shown)
    table = f"\n| | |\n|---|---|\n{rows}" if rows else ""
    return f"## {usage}\n\n{_clean(command.help or '')}\n{table}"


def _name(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return f"`{_metavar(parameter)}`"
    takes = "" if parameter.is_flag else f" {_metavar(parameter)}"
    names = ", ".join(f"`{option}{takes}`" for option in parameter.opts)
    return f"{names} (required)" if parameter.required else names


def _metavar(parameter: Any) -> str:
    kind = parameter.type_descriptor.annotation
    if isinstance(kind, type) and issubclass(kind, Enum):
        return "/".join(str(choice.value) for choice in kind)
    return str(parameter.metavar or parameter.name.rstrip("_").upper())


def _meaning(parameter: Any) -> str:
    default = parameter.default
    shown = default not in (None, False, "", ()) and not callable(default) and parameter.param_type_name == "option"
    words = f" Unless said otherwise: {default}." if shown and len(str(default)) < 15 else ""
    return _clean(getattr(parameter, "help", None) or "").replace("|", "\\|") + words


def _clean(text: str) -> str:
    return " ".join(text.split())


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
