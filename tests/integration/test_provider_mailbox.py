"""The mailbox over real SMTP: what it keeps, and how it misbehaves."""

import asyncio
from collections.abc import Iterator
from email.message import EmailMessage

import aiosmtplib
import httpx
import pytest

from homing.errors import ConfigurationError
from shop.providers.process import ProviderProcess

WAIT_SECONDS = 20.0
SUBJECT = "Đơn hàng của bạn đã được xác nhận"


@pytest.fixture(scope="module")
def running_mailbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProviderProcess]:
    """Run one mailbox for this module."""
    with ProviderProcess.start("mailbox", tmp_path_factory.mktemp("mailbox")) as mailbox:
        yield mailbox


@pytest.fixture
def mailbox(running_mailbox: ProviderProcess) -> ProviderProcess:
    """Hand out the mailbox in good health and empty."""
    running_mailbox.reset(ledger=True)
    return running_mailbox


def _confirmation(order: str = "1") -> EmailMessage:
    message = EmailMessage()
    message["From"] = "shop@example.com"
    message["To"] = "lan@example.com"
    message["Subject"] = SUBJECT
    message["Message-ID"] = f"<order-confirmation-{order}@example.com>"
    message["X-Idempotency-Key"] = f"order-confirmation-{order}"
    message.set_content("Cảm ơn bạn!")
    return message


async def _send(mailbox: ProviderProcess, message: EmailMessage) -> None:
    await aiosmtplib.send(message, hostname=mailbox.smtp_host, port=mailbox.smtp_port, timeout=WAIT_SECONDS)


async def test_a_message_is_kept_with_its_id_key_and_subject(mailbox: ProviderProcess) -> None:
    """The ledger shows who got what under which key, and the message can be read as it came."""
    await _send(mailbox, _confirmation())
    ledger = mailbox.ledger()
    message = ledger["messages"][0]
    assert message["recipients"] == ["lan@example.com"]
    assert (message["subject"], message["idempotencyKey"]) == (SUBJECT, "order-confirmation-1")
    assert message["messageId"] == "<order-confirmation-1@example.com>"
    async with httpx.AsyncClient(base_url=mailbox.url) as client:
        kept = (await client.get("/messages/0")).text
        assert SUBJECT not in kept  # raw: the subject is encoded
        assert "X-Idempotency-Key: order-confirmation-1" in kept
        assert (await client.get("/messages/1")).status_code == 404


async def test_what_is_sent_twice_arrives_twice(mailbox: ProviderProcess) -> None:
    """SMTP knows no keys: both arrive, and the ledger counts them under their key."""
    await _send(mailbox, _confirmation("1"))
    await _send(mailbox, _confirmation("1"))
    await _send(mailbox, _confirmation("2"))
    ledger = mailbox.ledger()
    assert ledger["byKey"] == {"order-confirmation-1": 2, "order-confirmation-2": 1}
    assert ledger["byRecipient"] == {"lan@example.com": 3}
    assert ledger["totals"] == {"messages": 3, "sentTwice": 1}


async def test_fail_after_effect_keeps_the_message_and_says_451(mailbox: ProviderProcess) -> None:
    """The sender is told to try again although the message arrived."""
    mailbox.control(fail_after_effect=1)
    with pytest.raises(aiosmtplib.SMTPDataError) as refused:
        await _send(mailbox, _confirmation())
    assert refused.value.code == 451
    assert mailbox.ledger()["totals"]["messages"] == 1


async def test_a_cut_connection_keeps_the_message(mailbox: ProviderProcess) -> None:
    """The sender loses the connection instead of an answer; the message arrived."""
    mailbox.control(fail_after_effect=1, fail_with="cut")
    with pytest.raises(aiosmtplib.SMTPServerDisconnected):
        await _send(mailbox, _confirmation())
    assert mailbox.ledger()["totals"]["messages"] == 1


@pytest.mark.parametrize(("status", "code"), [(None, 451), (554, 554)])
async def test_a_refused_message_is_not_kept(mailbox: ProviderProcess, status: int | None, code: int) -> None:
    """A refusal comes before the effect, with 451 or the wanted status, and the next message passes."""
    mailbox.control(refuse=1, refuse_status=status)
    with pytest.raises(aiosmtplib.SMTPDataError) as refused:
        await _send(mailbox, _confirmation())
    assert refused.value.code == code
    assert mailbox.ledger()["totals"]["messages"] == 0
    await _send(mailbox, _confirmation())
    assert mailbox.ledger()["totals"]["messages"] == 1


async def test_more_messages_than_the_limit_are_put_off(mailbox: ProviderProcess) -> None:
    """With a limit of one a second, of five messages at once some are told 451 and none of those is kept."""
    mailbox.control(throttle=1)
    results = await asyncio.gather(
        *(_send(mailbox, _confirmation(str(order))) for order in range(5)), return_exceptions=True
    )
    refused = [result for result in results if isinstance(result, aiosmtplib.SMTPDataError)]
    assert refused
    assert {error.code for error in refused} == {451}
    assert mailbox.ledger()["totals"]["messages"] == 5 - len(refused)


@pytest.mark.parametrize(("knob", "kept"), [("hang", 0), ("hang_after_effect", 1)])
async def test_a_hung_message_is_answered_once_released(mailbox: ProviderProcess, knob: str, kept: int) -> None:
    """After DATA the server is silent, with the message kept or not; released, it answers as usual."""
    mailbox.control(**{knob: 1})
    sending = asyncio.ensure_future(_send(mailbox, _confirmation()))
    await asyncio.to_thread(mailbox.wait_until_held)
    assert mailbox.ledger()["totals"]["messages"] == kept
    mailbox.release()
    await sending
    assert mailbox.ledger()["totals"]["messages"] == 1


async def test_a_sender_who_leaves_a_hung_message_leaves_none(mailbox: ProviderProcess) -> None:
    """A sender who gives up ends the held message: a later release does not deliver it."""
    mailbox.control(hang=1)
    client = aiosmtplib.SMTP(hostname=mailbox.smtp_host, port=mailbox.smtp_port, timeout=WAIT_SECONDS)
    await client.connect()
    sending = asyncio.ensure_future(client.send_message(_confirmation()))
    await asyncio.to_thread(mailbox.wait_until_held)
    client.close()
    with pytest.raises(aiosmtplib.SMTPServerDisconnected):
        await sending
    await asyncio.to_thread(mailbox.wait_until_held, 0)
    mailbox.release()
    assert mailbox.ledger()["totals"]["messages"] == 0


def test_a_mailbox_refuses_operations_of_others(mailbox: ProviderProcess) -> None:
    """Its only operation is `deliver`; another one is named in the refusal."""
    with pytest.raises(ConfigurationError, match="unknown operation 'capture'; choose from deliver"):
        mailbox.control(only=["capture"])
