"""One request, and everything that a page needs to answer it."""

import asyncio
import shlex
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, quote

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from homing.dashboard.access import Access, Identity
from homing.dashboard.guard import path_of
from homing.dashboard.lookout import Lookout
from homing.dashboard.masking import Masks
from homing.dashboard.navigation import Mark, marks_of
from homing.dashboard.query import Query
from homing.dashboard.seals import NOTE_SECONDS, Seals
from homing.dashboard.throttle import Throttle
from homing.dashboard.views import Views
from homing.dashboard.words import job_path, query
from homing.errors import ServerUnavailable
from homing.ids import DeliveryKey
from homing.ledger.actions import Person
from homing.ledger.ledger import Ledger
from homing.operations.servers import Servers
from homing.queue.browse import SteeredEngine

LOOKING_SECONDS = 10.0
"""How long a page may take to find what it shows."""

ACTING_SECONDS = 120.0
"""How long a deed may take; what it has done by then is kept."""

FIRST_LOOK_SECONDS = 3.0

MOST_FORM_BYTES = 1024 * 1024
MOST_FIELDS = 12_000
LONGEST_REASON = 500

NOTE_COOKIE = "homing_note"
THEME_COOKIE = "homing_theme"


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """What all requests share. `trace_url`: where a trace is shown, with `{trace_id}` in it."""

    servers: Servers
    lookout: Lookout
    access: Access
    seals: Seals
    throttle: Throttle
    views: Views
    masks: Masks
    trace_url: str | None = None


class Visit:
    """One request to one page, by somebody who was recognised (nobody yet, on the page where one logs in)."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.desk: Desk = request.app.state.desk
        self.root: str = request.scope.get("root_path", "")
        self.identity: Identity | None = request.scope.get("identity")
        self.query = Query(parse_qsl(request.scope["query_string"].decode("latin-1"), errors="replace"))
        self.form = Query(())

    @property
    def ledger(self) -> Ledger:
        """The ledger; raises `ServerUnavailable` while it was never reached."""
        return self.desk.servers.ledger

    @property
    def engine(self) -> SteeredEngine:
        """The engine; each question to it raises `ServerUnavailable` while it is away."""
        return self.desk.servers.engine

    @property
    def here(self) -> str:
        """The address of this page, as a browser asks for it again."""
        asked = self.request.scope["query_string"].decode("latin-1")
        return f"{self.root}{quote(self.path, safe='/:')}{f'?{asked}' if asked else ''}"

    @property
    def path(self) -> str:
        """The path of this page below the root."""
        return path_of(self.request.scope) or "/"

    @property
    def theme(self) -> str:
        """What the reader chose with the switch: `auto` follows the machine."""
        chosen = self.request.cookies.get(THEME_COOKIE, "auto")
        return chosen if chosen in ("light", "dark") else "auto"

    @property
    def marks(self) -> dict[str, Mark]:
        """What waits for somebody, by the path of its place."""
        return marks_of(self.desk.lookout.seen())

    def asset(self, name: str) -> str:
        """The address of a file that browsers load, which changes with its content."""
        return self.url(f"/assets/{name}", v=self.desk.views.sums[name])

    def url(self, path: str, **values: object) -> str:
        """The address of another page."""
        return f"{self.root}{quote(path, safe='/:')}{query(values)}"

    def job(self, job_id: str, queue: str | None = None) -> str:
        """The address of a job's case file; `queue` where the id alone does not say which job is meant."""
        path = job_path(job_id)
        where = None if DeliveryKey.parse(job_id) is not None else queue
        return self.url(path, queue=where) if "?" not in path else self.url("/job", id=job_id, queue=where)

    def part(self, name: str) -> str:
        """A part of the path, such as the name of a queue."""
        return str(self.request.path_params[name])

    def may(self, action: str) -> bool:
        """Whether a button is shown; whether the deed is done, the operation decides."""
        return self.identity is not None and self.person(None).may(action)

    def person(self, reason: str | None) -> Person:
        """Who acts, for the operation."""
        if self.identity is None:
            raise HTTPException(401, "who are you?")
        return Person(self.identity.name, reason, self.identity.role)

    def reasoned(self) -> Person:
        """Who acts, with the reason of the form, which has to be given."""
        reason = self.form.text("reason", most=LONGEST_REASON)
        if reason is None:
            raise HTTPException(400, "reason: say why, in a few words; it is kept with what is done")
        return self.person(reason)

    def page(self, template: str, status: int = 200, /, **values: Any) -> HTMLResponse:
        """The page of a template."""
        text = self.desk.views.render(template, visit=self, note=self._note(), **values)
        response = HTMLResponse(text, status)
        if NOTE_COOKIE in self.request.cookies:
            response.delete_cookie(NOTE_COOKIE, path=self.root or "/")
        return response

    def go(self, path: str, note: str | None = None, **values: object) -> RedirectResponse:
        """Send the browser to a page, which shows the note once."""
        return self.go_to(self.url(path, **values), note)

    def go_to(self, url: str, note: str | None = None) -> RedirectResponse:
        """The same for an address that `url` or `job` made."""
        response = RedirectResponse(url, 303)
        if note is not None:
            self.set_cookie(response, NOTE_COOKIE, self.desk.seals.seal_note(note), NOTE_SECONDS)
        return response

    def set_cookie(self, response: Response, name: str, value: str, seconds: int) -> None:
        """A cookie that no script reads and no other site sends along with a deed."""
        response.set_cookie(
            name,
            value,
            max_age=seconds,
            path=self.root or "/",
            secure=self.request.url.scheme == "https",
            httponly=True,
            samesite="lax",
        )

    @property
    def form_token(self) -> str:
        """What a form of this page carries, so that it is taken back."""
        return self.desk.seals.seal_form("" if self.identity is None else self.identity.binding)

    def command(self, *words: object) -> str:
        """The same as a command, to be copied."""
        return shlex.join(["homing", *(str(word) for word in words if word is not None)])

    def _note(self) -> str | None:
        sealed = self.request.cookies.get(NOTE_COOKIE)
        return self.desk.seals.open_note(sealed) if sealed else None


Page = Callable[[Visit], Awaitable[Response]]


def page(path: str, answer: Page) -> Route:
    """A page that is looked at: a GET that changes nothing, answered within `LOOKING_SECONDS` or given up."""

    async def serve(request: Request) -> Response:
        visit = Visit(request)
        await visit.desk.lookout.wait_first(FIRST_LOOK_SECONDS)
        return await _within(answer(visit), LOOKING_SECONDS)

    return Route(path, serve, methods=["GET"], name=answer.__name__)


def deed(path: str, answer: Page) -> Route:
    """A form that changes something: its token is checked and its fields are read before `answer` is called."""

    async def serve(request: Request) -> Response:
        visit = Visit(request)
        visit.form = await read_form(request)
        check_token(visit)
        request.state.back = visit.form.raw("back")
        return await _within(answer(visit), ACTING_SECONDS)

    return Route(path, serve, methods=["POST"], name=answer.__name__)


def is_ours(address: str) -> bool:
    """Whether an address leads to a page here, whoever wrote it."""
    is_path = address.startswith("/") and not address.startswith(("//", "/\\"))
    return is_path and address.isprintable() and "\\" not in address


def check_token(visit: Visit) -> None:
    """Raise a 403 unless the form was ours. A program that sends its bearer token with each request has no forms."""
    if "authorization" in visit.request.headers and visit.identity is not None and not visit.identity.binding:
        return
    binding = "" if visit.identity is None else visit.identity.binding
    if not visit.desk.seals.is_form_of(visit.form.raw("token"), binding):
        raise HTTPException(
            403, "the form is too old, or is not of this page: go back, load the page again and send it again"
        )


async def read_form(request: Request) -> Query:
    """The fields of a form; a 400 for what is none, a 413 for one that is too long."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MOST_FORM_BYTES:
            raise HTTPException(413, f"the form is longer than {MOST_FORM_BYTES:,} bytes")
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if body and kind != "application/x-www-form-urlencoded":
        raise HTTPException(400, "the body must be a form: application/x-www-form-urlencoded")
    try:
        return Query(parse_qsl(body.decode("ascii"), errors="replace", max_num_fields=MOST_FIELDS))
    except ValueError as error:
        raise HTTPException(400, "the form cannot be read") from error


async def _within(answer: Awaitable[Response], seconds: float) -> Response:
    try:
        async with asyncio.timeout(seconds):
            return await answer
    except TimeoutError:
        raise ServerUnavailable(f"the servers did not answer within {seconds:g} s") from None
