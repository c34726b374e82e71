"""`homing dashboard`: the pages over HTTP, closed to everybody but those who can show who they are."""

import asyncio
import ipaddress
import logging
import signal
import socket
import sys
from pathlib import Path
from types import FrameType

import uvicorn
from pydantic import SecretStr

from homing.config.settings import Settings
from homing.dashboard.access import Access, Identity
from homing.dashboard.app import Dashboard
from homing.dashboard.users import Users
from homing.errors import ConfigurationError
from homing.ledger.actions import Role

log = logging.getLogger("homing.dashboard")

CLOSING_SECONDS = 3
"""How long requests may take to end after the order to stop."""


def serve_pages(
    settings: Settings,
    *,
    name: str,
    local: str,
    users: Path | None,
    address: str,
    prefix: str,
    supervised: bool = False,
) -> None:
    """Serve until SIGINT or SIGTERM. `local`: who everybody on this machine is, where nobody has to log in.

    `supervised`: whoever started it holds its stdin, and it ends with that.
    """
    dashboard = Dashboard(
        settings,
        name=name,
        access=access_of(settings, users, local),
        prefix=prefix,
        masked=settings.dashboard_masked,
        trace_url=settings.dashboard_trace_url,
    )
    host, _, port = address.rpartition(":")
    serve(dashboard, host, int(port), supervised=supervised)


def access_of(settings: Settings, users: Path | None, local: str) -> Access:
    """The ways in that the settings open."""
    token = _said(settings.dashboard_token)
    return Access(
        users=None if users is None else Users(users),
        token=token,
        token_role=Role[settings.dashboard_token_role.upper()],
        local=Identity(local, Role.ADMIN) if users is None and token is None else None,
        secret=_said(settings.dashboard_secret),
    )


def _said(secret: SecretStr | None) -> str | None:
    return None if secret is None else secret.get_secret_value()


def require_closed(host: str, access: Access) -> None:
    """Raise a `ConfigurationError` for an address that others reach, where nobody has to show who they are."""
    if not access.is_closed and not is_loopback(host):
        raise ConfigurationError(
            f"the dashboard shows payloads and runs jobs again, and {host!r} can be reached from elsewhere: say who may use it with "
            "--users FILE (--add-user NAME puts somebody into it) or HOMING_DASHBOARD_TOKEN, or serve 127.0.0.1"
        )


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address; a name other than `localhost` may be anywhere."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def serve(dashboard: Dashboard, host: str, port: int, *, supervised: bool = False) -> None:
    """Serve until SIGINT or SIGTERM, or the end of stdin for one that is supervised."""
    require_closed(host, dashboard.desk.access)
    config = uvicorn.Config(
        dashboard,
        host=host.strip("[]"),
        port=port,
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        lifespan="on",
        proxy_headers=True,
        timeout_graceful_shutdown=CLOSING_SECONDS,
        h11_max_incomplete_event_size=64 * 1024,
    )
    asyncio.run(_Server(config, dashboard, supervised=supervised).serve())


class _Server(uvicorn.Server):
    """Lets the viewers of a stream go first, so that the end does not wait for them."""

    def __init__(self, config: uvicorn.Config, dashboard: Dashboard, *, supervised: bool) -> None:
        super().__init__(config)
        self._dashboard = dashboard
        self._supervised = supervised

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        if self._supervised:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGTERM, signal.SIGINT))  # our handlers are in place
            asyncio.get_running_loop().add_reader(sys.stdin.fileno(), self._obey)
        await super().startup(sockets)
        for server in self.servers:
            for listening in server.sockets:
                host, port = listening.getsockname()[:2]
                shown = f"[{host}]" if ":" in host else host
                log.info("the dashboard is at http://%s:%s%s/", shown, port, self._dashboard.prefix)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002 - as the library calls it
        """The first signal stops in good order, with 0; the second one waits for nobody."""
        self._dashboard.desk.lookout.leave()
        self.force_exit, self.should_exit = self.should_exit, True

    def _obey(self) -> None:
        """An order, or the end of whoever gives them."""
        asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
        self.handle_exit(signal.SIGTERM, None)
