"""The confirmation e-mail: at least once, by choice. Twice is possible after a crash; never is not."""

from uuid import uuid4

import aiosmtplib
import pytest
from sqlalchemy import text

from homing import PermanentError
from tests.integration.shop.world import World


async def test_the_customer_gets_one_confirmation(world: World) -> None:
    """One message to the right address, under ids made from the order; the second run sends nothing."""
    order_id = await world.place()
    await world.notifications.confirm_order(order_id)
    await world.notifications.confirm_order(order_id)
    (message,) = world.partners.mailbox.ledger()["messages"]
    assert message["recipients"] == ["lan@customers.example"]
    assert message["messageId"] == f"<order-confirmation-{order_id}@shop.example>"
    assert message["idempotencyKey"] == f"order-confirmation-{order_id}"
    assert (await world.row("emails"))["kind"] == "order-confirmation"


@pytest.mark.parametrize("how", ["error", "cut"])
async def test_dying_between_send_and_record_sends_again(world: World, how: str) -> None:
    """The mail server took it and the run failed before it could record: it arrives twice, under the same ids, never zero times."""
    order_id = await world.place()
    world.partners.mailbox.control(fail_after_effect=1, fail_with=how)
    with pytest.raises(aiosmtplib.SMTPException):
        await world.notifications.confirm_order(order_id)
    assert await world.rows("emails") == []
    await world.notifications.confirm_order(order_id)
    messages = world.partners.mailbox.ledger()["messages"]
    assert [message["idempotencyKey"] for message in messages] == [f"order-confirmation-{order_id}"] * 2
    assert len({message["messageId"] for message in messages}) == 1
    assert len(await world.rows("emails")) == 1


async def test_a_mail_server_that_refuses_is_asked_again_later(world: World) -> None:
    """4xx is not an answer for good: nothing is recorded, and the next run sends."""
    order_id = await world.place()
    world.partners.mailbox.control(refuse=1)
    with pytest.raises(aiosmtplib.SMTPResponseException):
        await world.notifications.confirm_order(order_id)
    await world.notifications.confirm_order(order_id)
    assert len(world.partners.mailbox.ledger()["messages"]) == 1


async def test_a_mail_server_that_refuses_for_good_is_permanent(world: World) -> None:
    """5xx gives the same answer every time: a person has to look."""
    order_id = await world.place()
    world.partners.mailbox.control(refuse=1, refuse_status=550)
    with pytest.raises(PermanentError, match=r"refused lan@customers\.example"):
        await world.notifications.confirm_order(order_id)


async def test_a_mail_server_that_hangs_is_given_up(hasty_world: World) -> None:
    """A message that is never acknowledged costs the time-out, and is sent again by the next run."""
    order_id = await hasty_world.place()
    hasty_world.partners.mailbox.control(hang=1)
    with pytest.raises(aiosmtplib.SMTPException):
        await hasty_world.notifications.confirm_order(order_id)
    hasty_world.partners.mailbox.release()
    await hasty_world.notifications.confirm_order(order_id)
    assert len(await hasty_world.rows("emails")) == 1


async def test_an_order_that_does_not_exist_is_permanent(world: World) -> None:
    """Nobody can be told about an order that is not there."""
    with pytest.raises(PermanentError, match="there is no order"):
        await world.notifications.confirm_order(uuid4())


async def test_the_table_holds_one_row_per_kind_and_order(world: World) -> None:
    """Whatever the code does, a second record of the same e-mail is impossible."""
    order_id = await world.place()
    await world.notifications.confirm_order(order_id)
    again = text("INSERT INTO shop.sent_emails (kind, order_id) VALUES ('order-confirmation', :id)")
    with pytest.raises(Exception, match="sent_emails_pkey"):
        async with world.engine.begin() as connection:
            await connection.execute(again, {"id": order_id})
