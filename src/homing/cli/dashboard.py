"""`homing dashboard`: the pages for operators, and those who may log in."""

import sys
from enum import Enum
from pathlib import Path
from typing import Annotated, Protocol

import typer

from homing.cli.acting import person
from homing.cli.apps import application_of
from homing.cli.features import feature
from homing.cli.output import show_text
from homing.cli.session import session_of
from homing.config.settings import Settings
from homing.errors import ConfigurationError
from homing.ledger.actions import Role


class RoleName(Enum):
    """The roles, as they are typed."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"


class ServePages(Protocol):
    """`homing.dashboard.serving.serve_pages`: serves until it is told to stop."""

    def __call__(
        self,
        settings: Settings,
        *,
        name: str,
        local: str,
        users: Path | None,
        address: str,
        prefix: str,
        supervised: bool,
    ) -> None: ...


class AddUser(Protocol):
    """`homing.dashboard.users.add_user`: writes a user into the file."""

    def __call__(self, file: Path, name: str, role: Role, password: str) -> None: ...


def dashboard_verb(
    context: typer.Context,
    *,
    host: Annotated[
        str | None, typer.Option(help="Where to serve; others may reach it only with users or a token.")
    ] = None,
    port: Annotated[int | None, typer.Option(help="The port.", min=0, max=65535, metavar="N")] = None,
    prefix: Annotated[
        str | None, typer.Option(help="The path below which it serves, behind a proxy.", metavar="PATH")
    ] = None,
    users: Annotated[Path | None, typer.Option(help="The file of those who may log in.", metavar="FILE")] = None,
    add_user: Annotated[
        str | None,
        typer.Option(help="Put somebody into that file, with a password that is asked for, and end.", metavar="NAME"),
    ] = None,
    role: Annotated[RoleName, typer.Option(help="What somebody who is added may do.")] = RoleName.VIEWER,
    supervised: Annotated[bool, typer.Option("--supervised", hidden=True)] = False,
) -> None:
    """Serve pages that show what happens, and let people steer it. On this machine alone, unless users or a token keep it closed."""
    session = session_of(context)
    settings = session.settings()
    file = users or settings.dashboard_users
    if add_user is not None:
        _add(file, add_user, role)
        return
    serve: ServePages = feature("homing.dashboard.serving", "serve_pages", verb="dashboard", extra="redis,dashboard")
    serve(
        settings,
        name=_name(settings),
        local=person(None).name,
        users=file,
        address=_address(settings, host, port),
        prefix=settings.dashboard_prefix if prefix is None else prefix,
        supervised=supervised,
    )


def _name(settings: Settings) -> str:
    """The app's name; it is loaded only where the settings name no prefix, which is the name then."""
    return settings.prefix or application_of(settings).name


def _address(settings: Settings, host: str | None, port: int | None) -> str:
    default_host, _, default_port = settings.dashboard_address.rpartition(":")
    return f"{host or default_host or '127.0.0.1'}:{default_port if port is None else port}"


def _add(file: Path | None, name: str, role: RoleName) -> None:
    if file is None:
        raise ConfigurationError("--add-user needs the file: say --users FILE, or set HOMING_DASHBOARD_USERS")
    add: AddUser = feature("homing.dashboard.users", "add_user", verb="dashboard", extra="redis,dashboard")
    if sys.stdin.isatty():
        password = typer.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    else:
        password = sys.stdin.readline().rstrip("\r\n")
    add(file, name, Role[role.name], password)
    show_text(f"{name} may log in as {role.value}, by {file}")
