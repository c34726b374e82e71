"""What passes between a worker and its children: whole frames or none, and errors that mean what they meant."""

import asyncio
import json
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homing.deadletters.report import report_error
from homing.errors import HandlerEndedTransaction, PermanentError, RetryLater, Throttled
from homing.worker.children.failures import describe, rebuild
from homing.worker.children.frames import pack, read, receive
from homing.worker.classify import is_conflict

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(codec=None), max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)


@given(frames=st.lists(st.dictionaries(st.text(max_size=5), JSON, max_size=3), max_size=4))
def test_frames_arrive_as_they_were_sent(frames: list[dict[str, object]]) -> None:
    """Any JSON object, lone surrogates included, arrives unchanged and in order; the end is told from a frame."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(b"".join(pack(frame) for frame in frames))
        ours.shutdown(socket.SHUT_WR)
        assert [receive(theirs) for _ in frames] == frames
        assert receive(theirs) is None


async def test_half_a_frame_is_no_frame() -> None:
    """When the other side ends in the middle of a frame, nothing of it counts, for threads and for the event loop."""
    packed = pack({"returned": "1"})
    for length in (1, 4, len(packed) - 1):
        ours, theirs = socket.socketpair()
        with ours, theirs:
            ours.sendall(packed[:length])
            ours.shutdown(socket.SHUT_WR)
            assert receive(theirs) is None
        stream = asyncio.StreamReader()
        stream.feed_data(packed[:length])
        stream.feed_eof()
        with pytest.raises(EOFError):
            await read(stream)


class ConflictError(Exception):
    """What a database driver raises."""

    sqlstate = "40P01"


class SoonError(RetryLater):
    """An application's own kind."""


@pytest.mark.parametrize(
    "error",
    [
        ValueError("a value"),
        PermanentError("never"),
        HandlerEndedTransaction("by itself"),
        SoonError(7, "not yet"),
        Throttled(9),
        ConflictError("deadlock"),
        SystemExit(3),
        AssertionError(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_keeps_meaning_and_report(error: BaseException) -> None:
    """After the journey it is judged the same and shown the same, own subclasses included."""
    expected = report_error(error)
    travelled = rebuild(json.loads(json.dumps(describe(error))))
    assert report_error(travelled) == expected
    assert is_conflict(travelled) is is_conflict(error)
    for kind in (PermanentError, RetryLater, Throttled):
        assert isinstance(travelled, kind) is isinstance(error, kind)
    assert getattr(travelled, "delay_seconds", None) == getattr(error, "delay_seconds", None)


def test_the_report_is_that_of_the_place_where_it_was_raised() -> None:
    """Stack and frame come from the child; being raised again in the worker adds nothing."""
    described = describe(_raised())
    with pytest.raises(Exception, match="here") as caught:
        raise rebuild(described)
    report = report_error(caught.value)
    assert report.frame == "test_children_frames.py:_raised"
    assert 'raise ValueError("here")' in report.stack


def _raised() -> ValueError:
    with pytest.raises(ValueError, match="here") as caught:
        raise ValueError("here")
    return caught.value
