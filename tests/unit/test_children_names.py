"""What a child process finds again by its name, and what is refused because it would not."""

from types import SimpleNamespace

import pytest

from homing import Event, Homing
from homing.errors import RegistrationError
from homing.worker.children import names
from homing.worker.children.names import check_findable, find, name_of


class Shape(Event, topic="names.shape", unrouted=True):
    sides: int = 3


class Drawer:
    class Inner:
        """A class in a class."""

        @staticmethod
        def draw(event: Shape) -> int:
            return event.sides

    def draw(self, event: Shape) -> int:
        return event.sides


def draw(event: Shape) -> int:
    """A handler that is found."""
    return event.sides


def wrapped(event: Shape) -> int:
    """A handler whose name now means another function."""
    return event.sides


original = wrapped
wrapped = draw


def app_with(function: object, event: type[Event] = Shape) -> Homing:
    """An app with one handler for a processor."""
    app = Homing("names")
    app.queue("q").handler("h", on=event, at_least_once=True, cpu=True)(function)  # type: ignore[arg-type,call-overload,unused-ignore] # any callable, on purpose
    return app


@pytest.mark.parametrize("thing", [draw, Shape, Drawer.Inner.draw], ids=["function", "class", "nested in classes"])
def test_what_has_a_place_is_found(thing: object) -> None:
    """Functions and classes at the top of a module, or inside a class there, are found as the same object."""
    assert find(name_of(thing)) is thing  # type: ignore[arg-type] # both kinds are callable


def test_handlers_that_are_found_pass() -> None:
    """Nothing is said of handlers that a child finds, nor of those that need no child."""
    check_findable(app_with(draw).handlers)
    app = Homing("names")

    @app.queue("q").handler("h", on=Shape, at_least_once=True)
    def inner(event: Shape) -> int:
        return event.sides

    check_findable(app.handlers)


@pytest.mark.parametrize(
    ("function", "words"),
    [(original, "wrapped is another object than the one that was registered"), (Drawer().draw, "is another object")],
    ids=["shadowed", "method"],
)
def test_a_name_that_leads_elsewhere_is_refused(function: object, words: str) -> None:
    """A child would run something else than the worker registered."""
    with pytest.raises(RegistrationError, match=words) as caught:
        check_findable(app_with(function).handlers)
    assert "with Homing's decorator above all others" in str(caught.value)


def test_an_event_that_is_not_found_is_refused() -> None:
    """The event's class travels by its name too."""

    class Local(Shape, topic="names.local", unrouted=True):
        pass

    with pytest.raises(RegistrationError, match=r"a child process cannot find .*Local"):
        check_findable(app_with(draw, Local).handlers)


def test_the_script_that_was_started_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is in `__main__` here is something else in a child."""
    app = app_with(draw)
    monkeypatch.setattr(draw, "__module__", "__main__")
    with pytest.raises(RegistrationError, match="is in the script that was started"):
        check_findable(app.handlers)


def test_a_module_that_is_gone_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Handlers made by a factory may name a module that nobody can import."""
    app = app_with(draw)
    monkeypatch.setattr(names, "importlib", SimpleNamespace(import_module=_missing))
    with pytest.raises(RegistrationError, match="no such module"):
        check_findable(app.handlers)


def _missing(name: str) -> object:
    raise ModuleNotFoundError(f"no such module {name}")
