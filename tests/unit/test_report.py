"""What is kept of an error: readable, bounded, and the same for the same failure."""

import json
from collections.abc import Callable
from types import FunctionType

import pytest

from homing import PermanentError
from homing.deadletters.report import (
    MAX_DEPTH,
    MAX_NAME,
    MAX_STACK,
    MAX_TEXT,
    ErrorReport,
    fits_jsonb,
    keepable_json,
    report_error,
    report_text,
)
from homing.harmless import clean, clean_line

HOSTILE = "a\x00b\x07c\x1b[31md\x7fe\x9bf\ud800g"


def fail(error: BaseException) -> None:
    """One place where things fail."""
    raise error


def fail_elsewhere(error: BaseException) -> None:
    """Another one."""
    raise error


def caught(error: BaseException, fail: Callable[[BaseException], None] = fail) -> BaseException:
    """The error, raised and caught, so that it has a place."""
    try:
        fail(error)
    except BaseException as raised:  # noqa: BLE001 - returned
        return raised
    raise AssertionError("nothing was raised")


class Mute(Exception):  # noqa: N818 - what it is
    """An error whose text cannot be read."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


def test_a_report_has_class_text_stack_and_place() -> None:
    """A person can read what was raised, why, and where."""
    report = report_error(caught(PermanentError("no such order")))
    assert report.error_class == "PermanentError"
    assert report.text == "no such order"
    assert report.frame == "test_report.py:fail"
    assert report.stack.startswith("Traceback")
    assert report.stack.endswith("PermanentError: no such order\n")
    assert report.summary == "PermanentError: no such order"
    assert json.loads(report.as_json()) == {
        "class": "PermanentError",
        "text": "no such order",
        "stack": report.stack,
        "frame": "test_report.py:fail",
    }


def test_what_is_known_of_the_last_failure_is_kept() -> None:
    """Whether no retry could help or none was left, and how often it had started; what nobody knows is left out."""
    kept = json.loads(report_text("E", "x").final("exhausted").as_json(starts=12))
    assert (kept["reason"], kept["starts"]) == ("exhausted", 12)
    assert json.loads(report_text("E", "x").as_json()).keys() == {"class", "text", "stack", "frame"}


def test_a_line_of_a_table_is_one_line() -> None:
    """Line breaks are blanks, what terminals obey is replaced, and the end is cut off."""
    assert clean_line("a\n\tb\x1b[31m  c") == "a b�[31m c"
    assert clean_line("x" * 200, 10) == "x" * 10 + "… (190 more characters)"


def test_causes_are_in_the_stack() -> None:
    """The error under the error is what a person looks for."""
    error = PermanentError("outer")
    error.__cause__ = caught(OSError("the disk"))
    assert "OSError: the disk" in report_error(caught(error)).stack


def test_control_characters_are_replaced_and_lines_kept() -> None:
    """What jsonb refuses and terminals obey is replaced; tabs and lines stay."""
    assert clean(HOSTILE) == "a�b�c�[31md�e�f�g"
    assert clean("one\n\ttwo") == "one\n\ttwo"
    assert clean("đ 漢 🙂 שלום\u200f") == "đ 漢 🙂 שלום\u200f"
    assert clean("gnp.\u202egnuhces\u202c \u2066x\u2069") == "gnp.�gnuhces� �x�"


def test_long_texts_say_how_much_is_missing() -> None:
    """A cut text is a cut text for its reader too."""
    assert clean("x" * 10, 10) == "x" * 10
    assert clean("x" * 3010, 10) == "x" * 10 + "… (3,000 more characters)"


def test_everything_in_a_report_is_clean_and_bounded() -> None:
    """Names count as much as texts: a class or file may be called anything."""
    kind = type("E\x1b[31m" * 100, (Exception,), {})
    code = fail.__code__.replace(co_filename="folder/\x1b[31m\udc80.py", co_name="go\x9b")
    report = report_error(caught(kind(HOSTILE * 1000), FunctionType(code, {})))
    assert len(report.error_class) < MAX_NAME + 50
    assert len(report.text) < MAX_TEXT + 50
    assert len(report.stack) < MAX_STACK + 50
    assert report.frame == "�[31m�.py:go�"
    for text in (report.error_class, report.text, report.stack, report.frame, report.summary):
        assert clean(text) == text
    assert report.as_json().encode()
    assert report.fingerprint("mail.send")


def test_a_long_stack_keeps_its_end() -> None:
    """The end of a stack is where the error was raised."""
    report = report_text("Error", "x", "first line\n" + "y" * MAX_STACK + "\nlast line")
    assert report.stack.endswith("last line")
    assert report.stack.startswith("(")
    assert "first line" not in report.stack


def test_an_error_without_readable_text_is_still_reported() -> None:
    """An error whose own text fails must not take the report with it."""
    report = report_error(caught(Mute()))
    assert report.error_class == "Mute"
    assert report.text == "(its text cannot be read: RuntimeError)"


def test_an_error_without_text_is_its_class() -> None:
    """No empty reason is shown."""
    assert report_error(caught(KeyError())).summary == "KeyError"


def test_like_failures_have_one_fingerprint() -> None:
    """Consumer, class and place make the group; the words of the moment do not."""
    first = report_error(caught(OSError("order 1"))).fingerprint("mail.send")
    assert first == report_error(caught(OSError("order 2"))).fingerprint("mail.send")
    assert first != report_error(caught(OSError("order 1"))).fingerprint("mail.other")
    assert first != report_error(caught(ValueError("order 1"))).fingerprint("mail.send")
    assert first != report_error(caught(OSError("order 1"), fail_elsewhere)).fingerprint("mail.send")
    assert len(first) == 16


def test_failures_without_a_place_are_grouped_by_their_words() -> None:
    """Numbers and ids in a text do not split a group."""
    one = report_text("Gone", "job 17 of 0197f1de-7c2b-7cc3-98a1-0f5a3a4c5d6e at 0xdeadbeef").fingerprint("a")
    other = report_text("Gone", "job 4 of 0297f1de-7c2b-7cc3-98a1-0f5a3a4c5d6f at 0xcafe").fingerprint("a")
    assert one == other != report_text("Gone", "another text").fingerprint("a")


@pytest.mark.parametrize(
    "data",
    ['{"a":1}', "[]", "null", "17", '"text"', '{"a":"\\\\u0000"}', '{"a":"\x7f\x9b"}', '{"a":"\\u001b"}', "9" * 400],
)
def test_json_that_can_be_kept_is_kept(data: str) -> None:
    """What jsonb takes is the same value afterwards, however strange it looks."""
    assert json.loads(keepable_json(data)) == json.loads(data)


@pytest.mark.parametrize(
    "data",
    ["", "{", "NaN", "[Infinity]", "1e999", '{"a":"\\u0000"}', '{"\\u0000":1}', '"\\ud800"', "\x00", "\ud800", "9" * 5000,
     "[" * 100_000, "[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1), '[{"a":' * 300 + "1" + "}]" * 300],
    ids=lambda data: repr(data[:20]),
)  # fmt: skip
def test_anything_else_is_kept_as_text(data: str) -> None:
    """What jsonb would refuse is kept as raw text: evidence is never the reason why a letter cannot be written."""
    assert json.loads(keepable_json(data)) == {"raw": clean(data)}


def test_what_fits_is_decided_by_the_values_not_by_their_spelling() -> None:
    """A backslash and four digits are text; a NUL is none, in keys and at any depth."""
    assert fits_jsonb({"a": ["\\u0000", 1, None, True, 1.5, ("x",)]})
    assert not fits_jsonb({"a": [{"b": "x\x00"}]})
    assert not fits_jsonb({"\ud800": 1})


def test_a_report_without_text_has_no_colon() -> None:
    """The summary is one line for a list."""
    assert ErrorReport(error_class="Poison", text="").summary == "Poison"


def test_a_report_has_no_password() -> None:
    """Neither its text nor its stack tells how to sign in to a server that could not be reached."""
    report = report_error(caught(ConnectionError("no answer from redis://shop:s3cret@r:6379/0 (password=s3cret)")))
    assert "redis://shop:***@r:6379/0 (password=***" in report.text
    assert "s3cret" not in report.text + report.stack
    assert "s3cret" not in report_text("Lost", "postgresql://a:s3cret@db/shop").text
