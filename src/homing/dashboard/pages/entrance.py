"""Where one logs in and out, and the files that every page needs."""

import math

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from homing.dashboard.access import SESSION_COOKIE
from homing.dashboard.seals import SESSION_SECONDS
from homing.dashboard.visit import Desk, Visit, deed, is_ours, page, read_form

LONGEST_PASSWORD = 1000

_YEAR = 31_536_000


async def login(visit: Visit) -> Response:
    """The form to log in."""
    if visit.identity is not None:
        return RedirectResponse(_next(visit, visit.query.raw("next")), 303)
    if visit.desk.access.users is None:
        raise HTTPException(404, "nobody logs in here with a password")
    return visit.page("login.html", next=visit.query.raw("next"), name="", wrong=None)


async def enter(request: Request) -> Response:
    """Check a password, and begin a session. No token is needed: there is nothing yet that a form could do in somebody's name."""
    visit = Visit(request)
    visit.form = await read_form(request)
    users, throttle = visit.desk.access.users, visit.desk.throttle
    if users is None:
        raise HTTPException(404, "nobody logs in here with a password")
    name, password = visit.form.raw("name").strip()[:200], visit.form.raw("password")
    keys = (f"name:{name}", f"address:{request.client.host if request.client else ''}")
    async with throttle.turn:  # else tries that are sent at once would all be free
        if (wait := throttle.wait_seconds(*keys)) > 0:
            return _refuse(visit, name, 429, f"too many wrong passwords: try again in {math.ceil(wait)} s", wait)
        user = await users.check(name, password) if len(password) <= LONGEST_PASSWORD else None
        if user is None:
            throttle.note_wrong(*keys)
            return _refuse(visit, name, 403, "name or password is wrong")
        throttle.note_right(keys[0])
    response = RedirectResponse(_next(visit, visit.form.raw("next")), 303)
    visit.set_cookie(response, SESSION_COOKIE, visit.desk.access.enter(user, visit.desk.seals), SESSION_SECONDS)
    return response


async def logout(visit: Visit) -> Response:
    """End the session."""
    if visit.identity is not None and visit.identity.binding:
        visit.desk.seals.end_session(visit.identity.binding)
    response = visit.go("/login")
    response.delete_cookie(SESSION_COOKIE, path=visit.root or "/")
    return response


async def asset(request: Request) -> Response:
    """A file of the package; its address changes with its content."""
    desk: Desk = request.app.state.desk
    found = desk.views.asset(request.path_params["name"])
    if found is None:
        return PlainTextResponse("no such file\n", 404)
    content, kind = found
    return Response(content, media_type=kind, headers={"Cache-Control": f"public, max-age={_YEAR}, immutable"})


def _refuse(visit: Visit, name: str, status: int, wrong: str, wait_seconds: float = 0.0) -> Response:
    response = visit.page("login.html", status, next=visit.form.raw("next"), name=name, wrong=wrong)
    if wait_seconds:
        response.headers["Retry-After"] = str(math.ceil(wait_seconds))
    return response


def _next(visit: Visit, asked: str) -> str:
    """Where to go on: a page of ours, whatever was asked for."""
    return f"{visit.root}{asked if is_ours(asked) else '/'}"


ROUTES = (
    page("/login", login),
    Route("/login", enter, methods=["POST"], name="enter"),
    deed("/logout", logout),
    Route("/assets/{name}", asset, methods=["GET"], name="asset"),
)
