"""An SMTP server that keeps what it gets in memory, with a small HTTP port to look inside and to turn its knobs.

Run it with `python -m shop.providers.mailbox`; `--help` lists the knobs. SMTP has no idempotency keys: what is sent
twice arrives twice, and the ledger says so.
"""

import asyncio
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from email import message_from_bytes
from email.policy import default as modern_policy
from typing import Any

from aiosmtpd.smtp import SMTP, Envelope, Session
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from shop.providers.answer import RefusedError, error_answer
from shop.providers.controls import CallerGoneError, Controls, ThrottledError, TurnedAwayError, never
from shop.providers.front import control_routes, refuse_request
from shop.providers.knobs import Knobs
from shop.providers.serving import LOOPBACK, listen, read_command_line, serve

OPERATIONS = ("deliver",)
CLOSING = "421 4.3.2 Closing"


@dataclass(frozen=True, slots=True)
class Message:
    """A message that really arrived; `at` is in seconds since the epoch."""

    at: float
    sender: str
    recipients: tuple[str, ...]
    message_id: str | None
    idempotency_key: str | None
    subject: str
    raw: bytes

    def view(self) -> dict[str, Any]:
        return {
            "at": self.at,
            "sender": self.sender,
            "recipients": list(self.recipients),
            "messageId": self.message_id,
            "idempotencyKey": self.idempotency_key,
            "subject": self.subject,
        }


class Mailbox:
    """The messages so far, and what SMTP says about a new one."""

    def __init__(self, controls: Controls, clock: Callable[[], float] = time.time) -> None:
        self.messages: list[Message] = []
        self._controls = controls
        self._clock = clock

    async def handle_DATA(self, server: SMTP, _session: Session, envelope: Envelope) -> str:  # noqa: N802 - aiosmtpd's name
        """Keep one message, unless a knob is against it; a held call ends with its connection."""
        try:
            await self._controls.arrive("deliver", "", never)
        except ThrottledError as throttled:
            return f"451 4.7.1 Too many messages, try again in {throttled.retry_after_seconds} s"
        except TurnedAwayError as refusal:
            status = 451 if refusal.status is None else refusal.status
            return f"{status} {status // 100}.3.2 Refused on request of a knob"
        except CallerGoneError:
            return CLOSING
        await self._controls.delay("deliver")
        self._keep(envelope)
        return await self._answer(server)

    def ledger(self) -> dict[str, Any]:
        """Return what really arrived, and how often per key and per recipient."""
        keys = Counter(message.idempotency_key for message in self.messages if message.idempotency_key)
        recipients = Counter(recipient for message in self.messages for recipient in message.recipients)
        return {
            "messages": [message.view() for message in self.messages],
            "byKey": dict(keys),
            "byRecipient": dict(recipients),
            "totals": {"messages": len(self.messages), "sentTwice": sum(number > 1 for number in keys.values())},
        }

    async def show_message(self, request: Request) -> Response:
        """Answer with a message as it came in; the first has number 0."""
        number: int = request.path_params["number"]
        if number >= len(self.messages):
            return error_answer(404, "not_found", f"there is no message {number}").response()
        return PlainTextResponse(self.messages[number].raw)

    def _keep(self, envelope: Envelope) -> None:
        raw = envelope.original_content or b""
        parsed = message_from_bytes(raw, policy=modern_policy)
        self.messages.append(
            Message(
                at=self._clock(),
                sender=envelope.mail_from or "",
                recipients=tuple(envelope.rcpt_tos),
                message_id=parsed["Message-ID"],
                idempotency_key=parsed["X-Idempotency-Key"],
                subject=str(parsed["Subject"] or ""),
                raw=raw,
            )
        )

    async def _answer(self, server: SMTP) -> str:
        aftermath = self._controls.aftermath("deliver")
        if aftermath.hang:
            try:
                await self._controls.hold("hang_after_effect", never)
            except CallerGoneError:
                return CLOSING
        if aftermath.fail == "cut":
            await _cut(server)
        if aftermath.fail == "error":
            return "451 4.3.0 Something went wrong on our side"
        return "250 2.0.0 Kept"


def create_app(controls: Controls, mailbox: Mailbox) -> Starlette:
    """Build the HTTP side of a mailbox."""
    routes = [
        Route("/messages/{number:int}", mailbox.show_message, methods=["GET"]),
        *control_routes(controls, mailbox.ledger, mailbox.messages.clear),
    ]
    return Starlette(routes=routes, exception_handlers={RefusedError: refuse_request})


async def _cut(server: SMTP) -> None:
    """Drop the connection; aiosmtpd cancels the task that waits here once it is gone."""
    if isinstance(server.transport, asyncio.Transport):
        server.transport.abort()
    await never()


async def serve_smtp(mailbox: Mailbox, port: int = 0) -> tuple[asyncio.Server, int]:
    """Start the SMTP side on loopback and return its server and port."""
    loop = asyncio.get_running_loop()
    listener = listen(port)
    bound: int = listener.getsockname()[1]

    def connect() -> SMTP:
        return SMTP(mailbox, hostname="mailbox.local", enable_SMTPUTF8=True, timeout=3600, loop=loop)

    return await loop.create_server(connect, sock=listener), bound


async def run(arguments: list[str]) -> None:
    """Serve SMTP and HTTP until told to stop."""
    options = read_command_line("mailbox", OPERATIONS, Knobs(), arguments)
    controls = Controls(options.knobs, OPERATIONS)
    mailbox = Mailbox(controls)
    smtp, smtp_port = await serve_smtp(mailbox, options.smtp_port)
    try:
        await serve(create_app(controls, mailbox), controls, options, smtp_host=LOOPBACK, smtp_port=smtp_port)
    finally:
        smtp.close()


if __name__ == "__main__":
    asyncio.run(run(sys.argv[1:]))
