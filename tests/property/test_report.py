"""Reports and evidence of anything."""

import json

from hypothesis import given
from hypothesis import strategies as st

from homing.deadletters.report import MAX_TEXT, fits_jsonb, keepable_json, report_error
from homing.harmless import clean

texts = st.text(st.characters())
"""Surrogates and control characters included."""

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
)


@given(texts)
def test_clean_text_stays_clean(text: str) -> None:
    """Cleaning once is cleaning; it changes no length and can be encoded."""
    cleaned = clean(text)
    assert clean(cleaned) == cleaned
    assert len(cleaned) == len(text)
    assert cleaned.encode() or text == ""


@given(texts)
def test_every_error_can_be_reported(text: str) -> None:
    """Whatever an error says, its report is JSON in UTF-8 of bounded size."""
    report = report_error(ValueError(text))
    assert report.as_json().encode()
    assert len(report.text) <= MAX_TEXT + 50
    assert report.fingerprint("mail.send") == report.fingerprint("mail.send")


@given(values)
def test_a_value_is_kept_exactly_or_as_text(value: object) -> None:
    """What fits is the same value again; what does not is told as raw text."""
    data = json.dumps(value)
    kept = json.loads(keepable_json(data))
    assert kept == (value if fits_jsonb(value) else {"raw": clean(data)})


@given(texts)
def test_any_text_can_be_kept(data: str) -> None:
    """No data of a job is refused, and what is kept fits."""
    kept = keepable_json(data)
    assert kept.encode()
    assert fits_jsonb(json.loads(kept))
