"""What is handed to browsers and must come back unchanged: sessions, the tokens of forms, and notes for the next page."""

import secrets
from collections import OrderedDict
from dataclasses import dataclass

from itsdangerous import BadSignature, URLSafeTimedSerializer

SESSION_SECONDS = 12 * 3600
FORM_SECONDS = 12 * 3600
NOTE_SECONDS = 60

_REMEMBERED = 10_000


@dataclass(frozen=True, slots=True)
class Session:
    """A session as its cookie says: whose, and of which password and role."""

    id: str
    name: str
    mark: str


class Seals:
    """Seals and opens. Nothing is kept of what is sealed, except which sessions were ended before their time, in this process."""

    def __init__(self, secret: str | None = None) -> None:
        secret = secret or secrets.token_urlsafe(32)
        self._sessions = URLSafeTimedSerializer(secret, salt="homing.dashboard.session")
        self._forms = URLSafeTimedSerializer(secret, salt="homing.dashboard.form")
        self._notes = URLSafeTimedSerializer(secret, salt="homing.dashboard.note")
        self._ended: OrderedDict[str, None] = OrderedDict()

    def seal_session(self, name: str, mark: str) -> str:
        """A new session of a user."""
        return str(self._sessions.dumps([secrets.token_urlsafe(18), name, mark]))

    def open_session(self, sealed: str) -> Session | None:
        """The session, unless it is forged, too old or was ended."""
        try:
            session = Session(*self._sessions.loads(sealed, max_age=SESSION_SECONDS))
        except (BadSignature, TypeError, ValueError):
            return None
        return None if session.id in self._ended else session

    def end_session(self, session_id: str) -> None:
        """Take a session back before its time."""
        self._ended[session_id] = None
        while len(self._ended) > _REMEMBERED:
            self._ended.popitem(last=False)

    def seal_form(self, binding: str) -> str:
        """The token of a form that only its reader may send."""
        return str(self._forms.dumps(binding))

    def is_form_of(self, token: str, binding: str) -> bool:
        """Whether the token was made for this reader, and lately."""
        try:
            return bool(self._forms.loads(token, max_age=FORM_SECONDS) == binding)
        except (BadSignature, ValueError):
            return False

    def seal_note(self, text: str) -> str:
        """A sentence for the next page."""
        return str(self._notes.dumps(text))

    def open_note(self, sealed: str) -> str | None:
        """The sentence; `None` for one that is forged or old."""
        try:
            return str(self._notes.loads(sealed, max_age=NOTE_SECONDS))
        except (BadSignature, ValueError):
            return None
