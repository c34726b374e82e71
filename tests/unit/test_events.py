"""Events: how they are declared, built, copied and read back."""

import copy
import pickle
from typing import Any
from uuid import UUID, uuid4

import pytest
from pydantic import PrivateAttr, ValidationError

from homing.errors import PayloadError, RegistrationError
from homing.events import Event, aggregate_id, encode_payload, known_events


class Placed(Event, topic="test.placed", aggregate="order_id"):
    """An event of these tests."""

    order_id: UUID
    total_price: int


class Captured(Event, topic="test.captured", version=3):
    """An event that had two earlier shapes."""

    amount: int
    currency: str


@Captured.upcast(from_version=1)
def add_currency(old: dict[str, Any]) -> dict[str, Any]:
    return old | {"currency": "VND"}


@Captured.upcast(from_version=2)
def rename_sum(old: dict[str, Any]) -> dict[str, Any]:
    return {"amount": old["sum"], "currency": old["currency"]}


def test_fields_travel_in_camel_case() -> None:
    """Python's names inside, JavaScript's names outside; both are taken when reading."""
    order = uuid4()
    event = Placed(order_id=order, total_price=5)
    assert encode_payload(event) == {"orderId": str(order), "totalPrice": 5}
    assert Placed.model_validate({"orderId": order, "total_price": 5}).order_id == order


def test_an_unknown_field_is_an_error_at_home_and_ignored_from_afar() -> None:
    """A typo while building fails; a field that a newer producer added does not."""
    with pytest.raises(ValidationError):
        Placed(order_id=uuid4(), total_price=5, totl=1)  # type: ignore[call-arg]  # the typo is the point
    read = Placed.decode({"orderId": str(uuid4()), "totalPrice": 5, "coupon": "x"}, event_id=uuid4())
    assert read.total_price == 5


def test_an_event_cannot_change() -> None:
    """Facts are frozen."""
    event = Placed(order_id=uuid4(), total_price=5)
    with pytest.raises(ValidationError, match="frozen"):
        event.total_price = 6


def test_the_id_is_made_with_the_object() -> None:
    """Equal content is another fact; copies and pickles of one fact keep its id; a changed copy is another fact."""
    order = uuid4()
    event = Placed(order_id=order, total_price=5)
    assert event.event_id.version == 7
    assert Placed(order_id=order, total_price=5).event_id != event.event_id
    for same in (copy.copy(event), copy.deepcopy(event), event.model_copy(), pickle.loads(pickle.dumps(event))):  # noqa: S301 - our own bytes
        assert same.event_id == event.event_id
    changed = event.model_copy(update={"total_price": 6})
    assert changed.total_price == 6
    assert changed.event_id != event.event_id


class Noted(Event, topic="test.noted"):
    """An event with things of its own beside its fields."""

    text: str
    _length: int = PrivateAttr(default=0)

    def model_post_init(self, context: Any, /) -> None:
        super().model_post_init(context)
        self._length = len(self.text)

    @property
    def length(self) -> int:
        """How long its text is."""
        return self._length


def test_an_event_class_may_have_private_attributes_of_its_own() -> None:
    """They and the id get along, whether the event is made here, read, copied or pickled."""
    made = Noted(text="three")
    read = Noted.decode({"text": "three"}, event_id=made.event_id)
    for event in (made, read, copy.deepcopy(made), pickle.loads(pickle.dumps(read))):  # noqa: S301 - our own bytes
        assert (event.event_id, event.length) == (made.event_id, 5)
    assert read == made != Noted(text="three")


def test_reading_gives_the_recorded_id() -> None:
    """A decoded event is the event that was recorded."""
    event_id = uuid4()
    assert Captured.decode({"amount": 1, "currency": "EUR"}, event_id=event_id, version=3).event_id == event_id


def test_old_shapes_are_lifted_step_by_step() -> None:
    """A payload of version 1 passes every upcast on its way to the current version."""
    assert Captured.decode({"sum": 7}, event_id=uuid4(), version=1).amount == 7
    assert Captured.decode({"sum": 7, "currency": "EUR"}, event_id=uuid4(), version=2).currency == "EUR"


def test_a_newer_version_than_the_code_is_refused() -> None:
    """The text says which versions, and what to deploy."""
    with pytest.raises(PayloadError, match="version 4, this code knows 3"):
        Captured.decode({"amount": 1}, event_id=uuid4(), version=4)


def test_a_payload_that_does_not_fit_names_the_event() -> None:
    """Topic, id and field are in the error."""
    event_id = uuid4()
    with pytest.raises(PayloadError, match=r"test\.captured") as caught:
        Captured.decode({"amount": "much", "currency": "EUR"}, event_id=event_id, version=3)
    assert str(event_id) in str(caught.value)
    assert "amount" in str(caught.value)


def test_a_missing_upcast_is_named() -> None:
    """An event that counts to 2 without telling how to get there says what to add."""

    class Half(Event, topic="test.half", version=2):
        value: int

    with pytest.raises(PayloadError, match="no upcast from version 1"):
        Half.decode({"value": 1}, event_id=uuid4(), version=1)


@pytest.mark.parametrize("step", [0, 3, 4])
def test_an_upcast_from_an_impossible_version_is_refused(step: int) -> None:
    """Upcasts start from the versions before the current one."""
    with pytest.raises(RegistrationError, match="1 to 2"):
        Captured.upcast(from_version=step)


def test_an_aggregate_must_be_a_field() -> None:
    """A misspelt aggregate is an error where the class is declared."""
    with pytest.raises(RegistrationError, match="ordr_id"):

        class Wrong(Event, topic="test.wrong", aggregate="ordr_id"):
            order_id: int


def test_versions_count_from_one() -> None:
    """Version 0 does not exist."""
    with pytest.raises(RegistrationError, match="version=0"):

        class Wrong(Event, topic="test.wrong", version=0):
            order_id: int


def test_the_aggregate_is_text_or_nothing() -> None:
    """Keys of any type become text; a class without an aggregate, or a field without a value, has none."""

    class Loose(Event, topic="test.loose", aggregate="key"):
        key: int | None

    order = uuid4()
    assert aggregate_id(Placed(order_id=order, total_price=5)) == str(order)
    assert aggregate_id(Loose(key=7)) == "7"
    assert aggregate_id(Loose(key=None)) is None
    assert aggregate_id(Captured(amount=1, currency="EUR")) is None


def test_a_subclass_says_its_own_topic() -> None:
    """Topics are not inherited: the child of an event is an event only when it says so."""

    class Child(Placed):
        more: int = 1

    class Named(Placed, topic="test.named", unrouted=True):
        more: int = 1

    assert Child.event_type.topic == ""
    assert (Named.event_type.topic, Named.event_type.unrouted, Named.event_type.aggregate) == ("test.named", True, None)
    known = known_events()
    assert Placed in known
    assert Named in known
    assert Child not in known
    assert [cls.event_type.topic for cls in known] == sorted(cls.event_type.topic for cls in known)
