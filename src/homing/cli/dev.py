"""`homing dev`: everything that an app needs to run on the machine of whoever writes it, by one command."""

import asyncio
import importlib.util
import os
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Protocol

import typer

from homing.cli.apps import module_of
from homing.cli.database import connected
from homing.cli.features import feature
from homing.cli.output import show_json, show_text
from homing.cli.session import Session, session_of
from homing.config.settings import Settings
from homing.embedded import Servers, open_servers, stop_with_parent
from homing.errors import Refused
from homing.schema import migrate

PRODUCTION = "production"


class Develop(Protocol):
    """`homing.processes.dev.develop`: runs until it is told to stop, and returns the exit code."""

    def __call__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        *,
        module: str,
        reload: bool,
        beside: Sequence[str] | None,
    ) -> int: ...


@dataclass(frozen=True, slots=True)
class Opened:
    """The variables that name embedded servers, and the folders of those."""

    variables: Mapping[str, str]
    folders: Mapping[str, Path]


def dev_verb(
    context: typer.Context,
    *,
    app: Annotated[str | None, typer.Option(help="The app object, as module:attribute.", metavar="MODULE:ATTR")] = None,
    no_reload: Annotated[bool, typer.Option("--no-reload", help="Leave the worker alone when a file changes.")] = False,
    no_dashboard: Annotated[bool, typer.Option("--no-dashboard", help="Serve no pages beside it.")] = False,
) -> None:
    """Run everything while you write handlers. Makes the tables, starts servers in .homing of this folder where no URL is set, and starts the worker again when a file changes."""
    session = session_of(context)
    session = replace(session, app=app or session.app)
    settings = session.settings()
    _refuse_production(settings)
    module = module_of(settings.app)
    develop: Develop = feature("homing.processes.dev", "develop", verb="dev", extra="redis")
    with _servers(settings) as opened:
        environment = {**os.environ, **opened.variables}
        settings = session.settings(environ=environment)
        settings.redis_dsn  # noqa: B018 - refuses an engine that the worker could not run on
        applied = asyncio.run(_migrate(settings))
        _report(session, opened, applied)
        command = [sys.executable, "-m", "homing", *session.arguments(), "worker", "--supervised"]
        beside = None if no_dashboard or not _has_dashboard() else _dashboard(session)
        code = develop(command, environment, module=module, reload=not no_reload, beside=beside)
    raise typer.Exit(code)


def _dashboard(session: Session) -> list[str]:
    return [sys.executable, "-m", "homing", *session.arguments(), "dashboard", "--supervised"]


def _has_dashboard() -> bool:
    """Whether the packages of the pages are installed: whoever develops can do without."""
    return all(importlib.util.find_spec(name) is not None for name in ("argon2", "itsdangerous", "jinja2", "uvicorn"))


def _refuse_production(settings: Settings) -> None:
    if settings.env == PRODUCTION:
        raise Refused(
            f"`homing dev` changes tables and starts workers again at will, and HOMING_ENV is {PRODUCTION!r}: run `homing migrate`, "
            "then `homing worker`"
        )


@contextmanager
def _servers(settings: Settings) -> Iterator[Opened]:
    """Servers for the URLs that nobody set. Those that were started here end with the block, or with this process if it is killed."""
    servers = open_servers(database_url=settings.database_url, redis_url=settings.redis_url)
    started = [server for server in (servers.valkey, servers.postgres) if server is not None and not server.attached]
    try:
        for server in started:
            stop_with_parent(server)
        yield _opened(servers)
    finally:
        for server in started:
            server.stop()


def _opened(servers: Servers) -> Opened:
    embedded = {
        "DATABASE_URL": (servers.postgres, servers.database_url),
        "REDIS_URL": (servers.valkey, servers.redis_url),
    }
    started = {name: (server, url) for name, (server, url) in embedded.items() if server is not None}
    return Opened(
        variables={name: url for name, (_, url) in started.items()},
        folders={server.name: server.home for server, _ in started.values()},
    )


async def _migrate(settings: Settings) -> list[str]:
    async with connected(settings.asyncpg_dsn) as connection:
        return await migrate(connection, engine=settings.engine)


def _report(session: Session, opened: Opened, applied: list[str]) -> None:
    """What an application needs to reach the same servers; URLs that somebody set are not repeated."""
    if session.json:
        folders = {name: str(folder) for name, folder in opened.folders.items()}
        show_json({"variables": opened.variables, "folders": folders, "applied": applied})
        return
    for name, folder in opened.folders.items():
        show_text(f"{name} runs for this folder, its data stays in {folder}")
    if opened.variables:
        show_text("your application finds them with:")
    for name, url in opened.variables.items():
        show_text(f"  export {name}={shlex.quote(url)}")
    for title in applied:
        show_text(f"applied {title}")
