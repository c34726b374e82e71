"""The dashboard as an ASGI application: served by `homing dashboard`, or mounted in an application of your own."""

import logging
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.types import Receive, Scope, Send

from homing.config.settings import Settings
from homing.dashboard.access import Access
from homing.dashboard.guard import Guard
from homing.dashboard.live import Live
from homing.dashboard.lookout import Lookout
from homing.dashboard.masking import Masks
from homing.dashboard.pages import PAGES
from homing.dashboard.pages.failures import show_failure
from homing.dashboard.seals import Seals
from homing.dashboard.throttle import Throttle
from homing.dashboard.views import Views
from homing.dashboard.visit import Desk
from homing.errors import ConfigurationError, HomingError
from homing.operations.servers import Servers

log = logging.getLogger("homing.dashboard")


class Dashboard:
    """The pages on the servers of `settings`. It opens with the first request, also while the servers are away, and closes with `running`.

    `name`: the app's, which keys start with where the settings name no prefix. `prefix`: the path below which it is served, where nobody
    mounts it. `masked`: fields of payloads that are hidden, besides the well-known ones. `trace_url`: where a trace can be seen, with
    `{trace_id}` in it. An application that mounts it enters `running()` in its lifespan.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        name: str,
        access: Access,
        prefix: str = "",
        masked: Collection[str] = (),
        trace_url: str | None = None,
    ) -> None:
        self.prefix = check_prefix(prefix)
        servers = Servers(settings, name, verb="dashboard")
        seals = Seals(access.secret)
        self.desk = Desk(
            servers=servers,
            lookout=Lookout(servers),
            access=access,
            seals=seals,
            throttle=Throttle(),
            views=Views(name),
            masks=Masks(masked),
            trace_url=check_trace_url(trace_url),
        )
        self.live = Live(self.desk)
        self._started = False
        pages = Starlette(
            routes=[*PAGES, self.live.route],
            exception_handlers={HTTPException: show_failure, HomingError: show_failure, Exception: show_failure},
        )
        pages.state.desk = self.desk
        self._pages = Guard(pages, access, seals)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request. The first one begins the look that all pages share."""
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
            return
        if not self._started:
            await self.start()
        if self.prefix:
            scope = {**scope, "root_path": scope.get("root_path", "") + self.prefix}
        await self._pages(scope, receive, send)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Look while the block runs, and close the connections at its end."""
        await self.start()
        try:
            yield
        finally:
            await self.stop()

    async def start(self) -> None:
        """Begin to look."""
        self._started = True
        await self.desk.lookout.start()

    async def stop(self) -> None:
        """End, and close the connections."""
        await self.desk.lookout.stop()
        await self.desk.servers.close()

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        async with self.running():
            await receive()
            await send({"type": "lifespan.startup.complete"})
            await receive()
        await send({"type": "lifespan.shutdown.complete"})


def check_prefix(prefix: str) -> str:
    """The path as it is put before every address; a `ConfigurationError` for what is none."""
    if not prefix or prefix == "/":
        return ""
    plain = prefix.replace("/", "").replace("-", "").replace("_", "").replace(".", "")
    if (
        not prefix.startswith("/")
        or prefix.endswith("/")
        or "//" in prefix
        or ".." in prefix
        or not (plain.isascii() and plain.isalnum())
    ):
        raise ConfigurationError(
            f"prefix {prefix!r} is no path: write it as in /ops/homing, without a slash at its end"
        )
    return prefix


def check_trace_url(url: str | None) -> str | None:
    """The address of traces; a `ConfigurationError` for one that leads nowhere."""
    if url is not None and not (url.startswith(("https://", "http://")) and "{trace_id}" in url):
        raise ConfigurationError(
            f"trace_url {url!r} shows no trace: write it as in https://traces.example.com/trace/{{trace_id}}"
        )
    return url
