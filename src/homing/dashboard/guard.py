"""What stands before every page: who asks, whether the request comes from our own pages, and what browsers may do with the answer."""

from urllib.parse import quote, urlsplit

from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from homing.dashboard.access import Access, is_loopback_name
from homing.dashboard.seals import Seals

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})

OPEN_PATHS = ("/login", "/assets/")
"""What is served before anybody is recognised."""

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)

HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


class Guard:
    """Lets a request through to the pages, with `identity` in its scope, or answers it: 303 to the login, 401, or 403."""

    def __init__(self, app: ASGIApp, access: Access, seals: Seals) -> None:
        self._app = app
        self._access = access
        self._seals = seals

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        connection = HTTPConnection(scope)
        answer = await self._refusal(connection)
        await (self._app if answer is None else answer)(scope, receive, send_guarded)

    async def _refusal(self, connection: HTTPConnection) -> Response | None:
        scope = connection.scope
        if scope["method"] not in SAFE_METHODS and not is_from_here(connection):
            return PlainTextResponse("this request comes from another site, and changes nothing here\n", 403)
        identity = await self._access.recognise(connection, self._seals)
        scope["identity"] = identity
        if identity is not None or path_of(scope).startswith(OPEN_PATHS):
            return None
        if not self._access.is_closed and not is_loopback_name(connection.headers.get("host", "")):
            return PlainTextResponse("nobody has to log in here, so that only names of this machine are served\n", 403)
        return self._ask(connection)

    def _ask(self, connection: HTTPConnection) -> Response:
        wants_page = "text/html" in connection.headers.get("accept", "") and "hx-request" not in connection.headers
        root = connection.scope.get("root_path", "")
        if self._access.users is None or not wants_page:
            return PlainTextResponse("who are you?\n", 401, {"WWW-Authenticate": "Bearer"})
        query = connection.scope.get("query_string", b"").decode("latin-1")
        here = quote(f"{path_of(connection.scope)}{f'?{query}' if query else ''}", safe="")
        return RedirectResponse(f"{root}/login?next={here}", 303)


def is_from_here(connection: HTTPConnection) -> bool:
    """Whether a request that changes something was sent by one of our pages, or by no browser. Browsers say where one comes from."""
    site = connection.headers.get("sec-fetch-site")
    if site is not None:
        return site in ("same-origin", "none")
    origin = connection.headers.get("origin")
    return origin is None or urlsplit(origin).netloc == connection.headers.get("host")


def path_of(scope: Scope) -> str:
    """The path below the place where the dashboard is."""
    path: str = scope["path"]
    root: str = scope.get("root_path", "")
    return path.removeprefix(root) if path == root or path.startswith(f"{root}/") else path
