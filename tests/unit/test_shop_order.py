"""The order as a value, and the money in it."""

from uuid import UUID, uuid4

import pytest
from pydantic import ValidationError

from shop.events import OrderCancelled, OrderPlaced, PaymentCaptured
from shop.loyalty.points import points_for
from shop.money import MAX_DONG, whole_dong
from shop.orders.order import Line, Order
from shop.orders.wish import WantedLine, Wish, order_id_for


def _order(*lines: Line) -> Order:
    return Order.place(id=uuid4(), customer_id=uuid4(), email="a@b.example", address="Hue", lines=lines, weight_grams=1)


def _wish(**changes: object) -> Wish:
    body = {
        "customerId": str(UUID(int=7)),
        "email": "lan@customers.example",
        "address": "1 Le Loi, Hue",
        "lines": [{"sku": "a", "quantity": 1}],
    }
    return Wish.model_validate({**body, **changes})


@pytest.mark.parametrize("amount", [-1, 1.5, 10.0, "10", None, True, MAX_DONG + 1, float("nan")])
def test_an_amount_is_whole_dong(amount: object) -> None:
    """Fractions, negatives, text, truth values and the uncountable are refused, by the check and by the events."""
    with pytest.raises(ValueError, match="whole dong"):
        whole_dong(amount)
    with pytest.raises(ValidationError):
        PaymentCaptured.model_validate({"orderId": uuid4(), "customerId": uuid4(), "amount": amount})


@pytest.mark.parametrize(("amount", "points"), [(0, 0), (9_999, 0), (10_000, 1), (19_999, 1), (250_000, 25)])
def test_points_are_rounded_down(amount: int, points: int) -> None:
    """One point for every full 10,000 dong."""
    assert points_for(amount) == points


def test_points_need_whole_dong() -> None:
    """There is no half dong to give points for."""
    with pytest.raises(ValueError, match="whole dong"):
        points_for(9_999.5)  # type: ignore[arg-type]  # what a caller without types would do


def test_placing_adds_up_and_tells() -> None:
    """The total is the sum of the lines, and the event carries it."""
    order = _order(Line("a", 2, 250_000), Line("b", 1, 9_999))
    assert order.total == 509_999
    (event,) = order.pull_events()
    assert isinstance(event, OrderPlaced)
    assert (event.order_id, event.customer_id, event.total) == (order.id, order.customer_id, 509_999)


def test_asking_for_events_does_not_forget_them() -> None:
    """Only `saved` does; the events are the same objects each time, so their ids are too."""
    order = _order(Line("a", 1, 1))
    assert order.pull_events() is order.pull_events()
    assert order.saved().pull_events() == ()
    assert order.saved().saved() == order.saved()


def test_cancelling_adds_one_event_once() -> None:
    """A cancelled order stays as it is when it is cancelled again."""
    order = _order(Line("a", 1, 1)).saved().cancel()
    assert [type(event) for event in order.pull_events()] == [OrderCancelled]
    assert order.cancel() is order


@pytest.mark.parametrize("line", [("a", 0, 1), ("a", -1, 1), ("a", 1.5, 1), ("a", 1, -1), ("a", 1, 0.5)])
def test_a_line_is_whole_and_positive(line: tuple[str, int, int]) -> None:
    """Half a product, none, or one at a negative price is no line."""
    with pytest.raises(ValueError, match="whole"):
        Line(*line)


def test_an_order_is_for_something() -> None:
    """An order without lines is a mistake."""
    with pytest.raises(ValueError, match="no lines"):
        _order()


def test_a_total_beyond_what_json_can_count_is_refused() -> None:
    """The sum is checked as each price is."""
    with pytest.raises(ValueError, match="whole dong"):
        _order(Line("a", 2, MAX_DONG))


def test_the_order_id_comes_from_the_key() -> None:
    """The same key means the same order in every process; another key means another."""
    assert order_id_for("k") == order_id_for("k") == UUID("d09309df-692f-5ff5-8895-988b2584bd36")
    assert order_id_for("k") != order_id_for("l")


def test_a_fingerprint_tells_wishes_apart() -> None:
    """What is said counts, how it is spelled does not."""
    named = Wish(
        customer_id=UUID(int=7),
        email="lan@customers.example",
        address="1 Le Loi, Hue",
        lines=[WantedLine(sku="a", quantity=1)],
    )
    assert _wish().fingerprint == named.fingerprint
    others = [
        _wish(customerId=str(UUID(int=8))),
        _wish(email="l@customers.example"),
        _wish(address="2 Le Loi, Hue"),
        _wish(lines=[{"sku": "a", "quantity": 2}]),
    ]
    assert len({_wish().fingerprint, *(other.fingerprint for other in others)}) == 5


def test_lines_of_one_product_count_together() -> None:
    """Two lines of one product reserve it once, for both."""
    lines = [{"sku": "a", "quantity": 1}, {"sku": "b", "quantity": 4}, {"sku": "a", "quantity": 2}]
    assert _wish(lines=lines).quantities == {"a": 3, "b": 4}
