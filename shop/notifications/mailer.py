"""Sending e-mail over SMTP."""

from email.message import EmailMessage
from email.policy import SMTP
from email.utils import parseaddr
from typing import Protocol

import aiosmtplib

from homing import PermanentError

_UNFOLDED = SMTP.clone(max_line_length=500)  # a Message-ID that is folded is another one to simple readers


class Mailer(Protocol):
    """Sends messages; an error that trying again cannot mend is a `PermanentError`."""

    async def send(self, message: EmailMessage) -> None:
        """Hand the message to the mail server; returns once the server has taken it."""
        ...


class SmtpMailer:
    """Implements `Mailer`; `timeout_seconds` bounds each step of the conversation."""

    def __init__(self, *, host: str, port: int, timeout_seconds: float) -> None:
        self._host = host
        self._port = port
        self._timeout_seconds = timeout_seconds

    async def send(self, message: EmailMessage) -> None:
        try:
            await aiosmtplib.send(
                message.as_bytes(policy=_UNFOLDED),
                sender=parseaddr(str(message["From"]))[1],
                recipients=[str(message["To"])],
                hostname=self._host,
                port=self._port,
                timeout=self._timeout_seconds,
            )
        except aiosmtplib.SMTPResponseException as error:
            raise _by_meaning(error, error.code, str(message["To"])) from error
        except aiosmtplib.SMTPRecipientsRefused as error:
            code = max((refused.code for refused in error.recipients), default=550)
            raise _by_meaning(error, code, str(message["To"])) from error


def _by_meaning(error: Exception, code: int, recipient: str) -> Exception:
    """5xx is the server's last word (RFC 5321 §4.2.1); 4xx asks to try again."""
    return PermanentError(f"the mail server refused {recipient}: {error}") if code >= 500 else error
