"""Templates and the files that browsers load: found in the package, escaped by default, never changed while the process runs."""

import hashlib
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from homing.dashboard import sparks, words
from homing.dashboard.navigation import PLACES
from homing.operations.verdict import Level

ASSETS = {
    "homing.css": "text/css; charset=utf-8",
    "homing.js": "text/javascript; charset=utf-8",
    "htmx-2.0.11.min.js": "text/javascript; charset=utf-8",
    "mark.svg": "image/svg+xml",
}


class Views:
    """Renders pages. `name` is the app's, for the title."""

    def __init__(self, name: str) -> None:
        self._assets = {asset: files("homing.dashboard").joinpath("assets", asset).read_bytes() for asset in ASSETS}
        self.sums = {asset: hashlib.sha256(content).hexdigest()[:12] for asset, content in self._assets.items()}
        self._templates = Environment(
            loader=PackageLoader("homing.dashboard"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            finalize=words.harmless,
            auto_reload=False,
        )
        self._templates.globals |= {"app_name": name, "places": PLACES, "Level": Level}
        self._templates.globals |= {"spark": sparks.spark}
        for filter_ in (
            words.number,
            words.bounded,
            words.rate,
            words.age,
            words.ago,
            words.moment,
            words.clock,
            words.cut,
            words.sentence,
            words.day,
        ):
            self._templates.filters[filter_.__name__] = filter_
        self._templates.filters |= {
            "count_of": words.count_of,
            "ticks": words.ticks,
            "pretty": words.pretty,
            "job_path": words.job_path,
        }

    def render(self, template: str, **values: Any) -> str:
        """The text of a page."""
        return self._templates.get_template(template).render(**values)

    def asset(self, name: str) -> tuple[bytes, str] | None:
        """Content and type of a file that browsers load."""
        return (self._assets[name], ASSETS[name]) if name in ASSETS else None
