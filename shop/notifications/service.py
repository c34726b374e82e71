"""What customers are written: the order confirmation, and the invoice."""

from collections.abc import Callable, Sequence
from email.message import EmailMessage
from email.utils import parseaddr
from uuid import UUID

from sqlalchemy import text

from homing import PermanentError
from shop.database import Sessions
from shop.notifications.mailer import Mailer
from shop.orders.port import Contact, Orders

CONFIRMATION = "order-confirmation"
INVOICE = "invoice"

_SENT = text("SELECT 1 FROM shop.sent_emails WHERE kind = :kind AND order_id = :order_id")
_RECORD = text("""
    INSERT INTO shop.sent_emails (kind, order_id) VALUES (:kind, :order_id) ON CONFLICT (kind, order_id) DO NOTHING""")


class NotificationsService:
    """Writes to customers; `sender` is the From line."""

    def __init__(self, sessions: Sessions, *, orders: Orders, mailer: Mailer, sender: str) -> None:
        self._sessions = sessions
        self._orders = orders
        self._mailer = mailer
        self._sender = sender

    async def confirm_order(self, order_id: UUID) -> None:
        """Send the confirmation of an order unless that is recorded already."""
        await self._send_once(CONFIRMATION, order_id, "Your order", lambda contact: _confirmation(order_id, contact))

    async def send_invoice(self, order_id: UUID, tracking_numbers: Sequence[str]) -> None:
        """Send the invoice of an order whose parcels are on their way, unless that is recorded already."""
        await self._send_once(
            INVOICE, order_id, "Your invoice for order", lambda contact: _invoice(order_id, contact, tracking_numbers)
        )

    async def _send_once(self, kind: str, order_id: UUID, subject: str, write: Callable[[Contact], str]) -> None:
        if await self._was_sent(kind, order_id):
            return
        contact = await self._orders.contact_of(order_id)
        if contact is None:
            raise PermanentError(f"there is no order {order_id} to write about ({kind})")
        # Send, then record: at least once, by choice. Killed between these two lines, the next run sends it again. The other order
        # would lose it instead, and a second e-mail annoys where a missing one makes customers call, or order twice. The key
        # below lets a mail service that knows such keys drop the second one; plain SMTP does not.
        await self._mailer.send(self._message(kind, order_id, contact, f"{subject} {order_id}", write(contact)))
        await self._record_sent(kind, order_id)

    def _message(self, kind: str, order_id: UUID, contact: Contact, subject: str, content: str) -> EmailMessage:
        message = EmailMessage()
        message["From"] = self._sender
        message["To"] = contact.email
        message["Subject"] = subject
        message["Message-ID"] = f"<{kind}-{order_id}@{parseaddr(self._sender)[1].rpartition('@')[2]}>"
        message["X-Idempotency-Key"] = f"{kind}-{order_id}"
        message.set_content(content)
        return message

    async def _was_sent(self, kind: str, order_id: UUID) -> bool:
        async with self._sessions() as db:
            found = await db.execute(_SENT, {"kind": kind, "order_id": order_id})
            return found.one_or_none() is not None

    async def _record_sent(self, kind: str, order_id: UUID) -> None:
        async with self._sessions.begin() as tx:
            await tx.execute(_RECORD, {"kind": kind, "order_id": order_id})


def _confirmation(order_id: UUID, contact: Contact) -> str:
    return f"Thank you. We have your order {order_id} over {contact.total:,} VND.\n"


def _invoice(order_id: UUID, contact: Contact, tracking_numbers: Sequence[str]) -> str:
    parcels = "\n".join(f"  parcel {number}: {tracking}" for number, tracking in enumerate(tracking_numbers, 1))
    return f"You have paid {contact.total:,} VND for order {order_id}. It is on its way:\n{parcels}\n"
