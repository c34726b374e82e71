"""Job ids of deliveries, for any delivery and any text."""

from hypothesis import given
from hypothesis import strategies as st

from homing.ids import LAST_GENERATION, DeliveryKey, is_consumer_name

names = st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}", fullmatch=True)
keys = st.builds(DeliveryKey, st.uuids(), names, st.integers(1, LAST_GENERATION))


@given(keys)
def test_a_job_id_reads_back_as_its_delivery(key: DeliveryKey) -> None:
    """Nothing is lost between a delivery and its job id."""
    assert DeliveryKey.parse(key.job_id) == key


@given(keys, keys)
def test_two_deliveries_never_share_a_job(one: DeliveryKey, other: DeliveryKey) -> None:
    """Job ids are equal only for equal deliveries, dots in names notwithstanding."""
    assert (one.job_id == other.job_id) == (one == other)


@given(st.text() | st.builds("{}.{}.{}".format, st.uuids(), st.text(max_size=5), st.text(max_size=5)))
def test_any_text_is_read_or_refused(text: str) -> None:
    """No id raises, and one that is read is exactly the id of what was read."""
    key = DeliveryKey.parse(text)
    assert key is None or key.job_id == text


@given(st.text())
def test_a_name_is_short_and_has_no_separator(text: str) -> None:
    """What passes as a name can stand between dots and colons of keys."""
    if is_consumer_name(text):
        assert 1 <= len(text) <= 200
        assert not set(text) & set(": \t\n{}*")
