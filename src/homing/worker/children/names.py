"""How a function or a class is found again in another process: by the module and the name it was defined under."""

import importlib
from collections.abc import Callable, Iterable
from typing import Any

from homing.app.handlers import Handler
from homing.errors import RegistrationError


def name_of(thing: Callable[..., Any]) -> str:
    """`module:name`, under which `find` gets it back."""
    return f"{thing.__module__}:{thing.__qualname__}"


def find(name: str) -> Any:
    """What stands under `module:name`, imported where needed; raises whatever the import raises, and `AttributeError`."""
    module, _, path = name.partition(":")
    found: Any = importlib.import_module(module)
    for part in path.split("."):
        found = getattr(found, part)
    return found


def check_findable(handlers: Iterable[Handler]) -> None:
    """Raise a `RegistrationError` for handlers with `cpu=True` that a child process would not find, or find otherwise."""
    problems = [
        f"{handler.location} says cpu=True, and {what}: define handler and event at the top of a module that can be imported, "
        "with Homing's decorator above all others"
        for handler in handlers
        if handler.kind == "process"
        for thing in (handler.function, handler.event)
        if (what := _obstacle(thing))
    ]
    if problems:
        raise RegistrationError("; ".join(problems))


def _obstacle(thing: Callable[..., Any]) -> str:
    name = name_of(thing)
    if thing.__module__ == "__main__":
        return f"{name} is in the script that was started, which no child can import"
    try:
        found = find(name)
    except (ImportError, AttributeError) as error:
        return f"a child process cannot find {name} ({error})"
    return "" if found is thing else f"{name} is another object than the one that was registered"
