"""What the options before the verb said, and what every verb makes of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import typer

from homing.config.logs import configure_logging
from homing.config.settings import Settings, load_settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """The options that every verb shares."""

    app: str | None
    config: Path | None
    json: bool
    verbose: bool

    def settings(
        self,
        *,
        worker_queues: str | None = None,
        worker_processes: int | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> Settings:
        """The settings in force, the command line's values over all others; logging is set up accordingly."""
        settings = load_settings(
            config_file=self.config,
            environ=environ,
            app=self.app,
            worker_queues=worker_queues,
            worker_processes=worker_processes,
        )
        configure_logging("DEBUG" if self.verbose else settings.log_level, settings.log_format)
        return settings

    def arguments(self) -> list[str]:
        """The same options for another `homing` command."""
        app = [] if self.app is None else ["--app", self.app]
        config = [] if self.config is None else ["--config", str(self.config)]
        return [*app, *config, *(["--json"] if self.json else []), *(["--verbose"] if self.verbose else [])]


def session_of(context: typer.Context) -> Session:
    """The session that the callback of the command line made."""
    session = context.find_object(Session)
    if session is None:
        raise AssertionError("a verb ran without the callback of the command line")
    return session
