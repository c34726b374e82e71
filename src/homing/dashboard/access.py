"""Who is asking: a user with a session, a program with a token, or whoever the single sign-on of the application says it is."""

import inspect
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from starlette.requests import HTTPConnection

from homing.dashboard.seals import Seals
from homing.dashboard.users import User, Users
from homing.errors import ConfigurationError
from homing.ledger.actions import Role

SHORTEST_TOKEN = 20

SESSION_COOKIE = "homing_session"

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})


@dataclass(frozen=True, slots=True)
class Identity:
    """Somebody who was recognised. `binding`: what their forms are bound to, so that nobody else's are taken."""

    name: str
    role: Role
    binding: str = ""


SignOn = Callable[[HTTPConnection], Identity | Awaitable[Identity | None] | None]
"""Says who sends a request, or `None` for nobody who may see anything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """The ways in; without any, nobody gets in unless `local` names who everybody on this machine is.

    `token` is what programs send as `Authorization: Bearer …`, with `token_role`. `secret` seals sessions: give the same one to every process
    that serves the dashboard, and sessions outlive a restart.
    """

    users: Users | None = None
    token: str | None = field(default=None, repr=False)
    token_role: Role = Role.VIEWER
    sign_on: SignOn | None = None
    local: Identity | None = None
    secret: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.token is not None and len(self.token) < SHORTEST_TOKEN:
            raise ConfigurationError(
                f"the token of the dashboard has {len(self.token)} characters: take {SHORTEST_TOKEN} or more that nobody guesses"
            )
        if self.secret is not None and len(self.secret) < SHORTEST_TOKEN:
            raise ConfigurationError(
                f"the secret of the dashboard has {len(self.secret)} characters: take {SHORTEST_TOKEN} or more"
            )
        if not self.is_closed and self.local is None:
            raise ConfigurationError(
                "the dashboard shows payloads and runs jobs again: give it users, a token or a sign_on, or `local` on a machine of your own"
            )
        if self.is_closed and self.local is not None:
            raise ConfigurationError(
                "users, a token or a sign_on keep the dashboard closed, and `local` opens it: give one"
            )

    @property
    def is_closed(self) -> bool:
        """Whether anybody has to show who they are."""
        return not (self.users is None and self.token is None and self.sign_on is None)

    async def recognise(self, connection: HTTPConnection, seals: Seals) -> Identity | None:
        """Who sends this request; `None` when nobody knows."""
        if self.local is not None:
            return self.local if is_loopback_name(connection.headers.get("host", "")) else None
        scheme, _, given = connection.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return self._program(given.strip())
        if (identity := self._user(connection, seals)) is not None:
            return identity
        return await self._signed_on(connection)

    def enter(self, user: User, seals: Seals) -> str:
        """A session for a user whose password was right: the value of its cookie."""
        return seals.seal_session(user.name, user.mark)

    def _program(self, given: str) -> Identity | None:
        right = self.token is not None and secrets.compare_digest(given.encode(), self.token.encode())
        return Identity("token", self.token_role) if right else None

    def _user(self, connection: HTTPConnection, seals: Seals) -> Identity | None:
        cookie = connection.cookies.get(SESSION_COOKIE)
        session = seals.open_session(cookie) if cookie and self.users is not None else None
        user = self.users.find(session.name) if session is not None and self.users is not None else None
        if session is None or user is None or user.mark != session.mark:
            return None
        return Identity(user.name, user.role, session.id)

    async def _signed_on(self, connection: HTTPConnection) -> Identity | None:
        if self.sign_on is None:
            return None
        answer = self.sign_on(connection)
        identity = await answer if inspect.isawaitable(answer) else answer
        return None if identity is None else Identity(identity.name, identity.role, f"sign-on:{identity.name}")


def is_loopback_name(host: str) -> bool:
    """Whether a browser that sent this `Host` meant this machine: no other name is trusted where nobody has to log in."""
    name, _, port = host.rpartition(":")
    return (name if port.isdecimal() else host).lower() in LOOPBACK_NAMES
