"""From `module:attribute` to the app object."""

import importlib
import sys
from pathlib import Path
from types import ModuleType

from homing.app import Homing
from homing.config.settings import Settings
from homing.config.sources import did_you_mean
from homing.errors import ConfigurationError


def load_app(place: str | None) -> Homing:
    """Import the app object at `place`, with the working directory on the path; a `ConfigurationError` says what is missing."""
    place, module_name, attribute = _parts(place)
    module = _module(module_name, place)
    found = getattr(module, attribute, None)
    if isinstance(found, Homing):
        return found
    apps = [name for name, value in vars(module).items() if isinstance(value, Homing)]
    if not hasattr(module, attribute):
        raise ConfigurationError(f"app {place!r}: module {module_name} has no {attribute!r}{_instead(attribute, apps)}")
    raise ConfigurationError(f"app {place!r} is {type(found).__name__}, not a Homing object{_instead(attribute, apps)}")


def application_of(settings: Settings) -> Homing:
    """The app object, its handlers imported, running with `settings`."""
    try:
        app = load_app(settings.app)
        app.use(settings)
        app.load()
    except SyntaxError as error:
        raise unreadable(error) from error
    return app


def unreadable(error: SyntaxError) -> ConfigurationError:
    """What to mend in code that Python cannot read: the place and the line itself; whoever wrote it needs no traceback of ours."""
    line = (error.text or "").strip()
    return ConfigurationError(f"{error.filename}, line {error.lineno}: {error.msg}{f' in {line!r}' if line else ''}")


def module_of(place: str | None) -> str:
    """The name of the module in `place`, which is not imported; errors as for `load_app`."""
    return _parts(place)[1]


def _parts(place: str | None) -> tuple[str, str, str]:
    """The whole of it, the module and the attribute."""
    if place is None:
        raise ConfigurationError(
            "no app is named: give --app module:attribute, or set HOMING_APP, or app in [tool.homing] of pyproject.toml"
        )
    module_name, separator, attribute = place.partition(":")
    if not (separator and module_name and attribute):
        raise ConfigurationError(f"app {place!r} has no form module:attribute: write it as in shop.jobs:app")
    return place, module_name, attribute


def _instead(attribute: str, apps: list[str]) -> str:
    return did_you_mean(attribute, apps) if apps else "; it holds no Homing object at all"


def _module(name: str, place: str) -> ModuleType:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = error.name or name
        if f"{name}.".startswith(f"{missing}."):
            raise ConfigurationError(
                f"app {place!r}: there is no module {missing!r} in {here} or on the path"
            ) from error
        raise ConfigurationError(f"app {place!r}: importing {name} failed, {error}: install what it needs") from error
