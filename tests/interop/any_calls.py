"""Calls in any order, for Hypothesis: an id means a job whether it is there or not, a number one that was claimed before."""

from typing import Any

from hypothesis import strategies as st

from homing.queue.job import Deduplication, KeepRule
from tests.interop.player import CHILDREN

OF_A_RUN = {"complete", "fail", "retry", "snooze", "release", "extend"}
"""The calls whose first argument is the number of a claimed job."""

ONLY_NEW = {"add_flow", "schedule"}
"""The calls that are left out where one of their names is known: BullMQ's flows take no job that is there, and it makes ticks anew."""

Call = tuple[str, tuple[Any, ...], dict[str, Any]]

_ID = st.sampled_from("abcdefgpq")
_CLAIMED = st.integers(0, 7)
_SAME = [
    Deduplication(id="s"),
    Deduplication(id="s", replace=True),
    Deduplication(id="s", keep_last_if_active=True),
    Deduplication(id="s", ttl_seconds=7200),
    Deduplication(id="s", ttl_seconds=7200, extend=True),
    Deduplication(id="s", ttl_seconds=7200, extend=True, replace=True),
]
_TERMS = st.fixed_dictionaries(
    {},
    optional={
        "attempts": st.integers(1, 3),
        "keep_completed": st.sampled_from([KeepRule(count=0), KeepRule(count=1), KeepRule(age_seconds=7200)]),
        "same": st.sampled_from(_SAME),
    },
)
_PLACES = st.sampled_from([{}, {"priority": 1}, {"priority": 2}, {"delay_hours": 2.0}, {"lifo": True}])
_KEYS = st.sampled_from(["a:lock", "b:lock", "stalled-check", "marker", "limiter", "de:s"])


def _call(names: list[str], *args: st.SearchStrategy[Any], **terms: st.SearchStrategy[Any]) -> st.SearchStrategy[Call]:
    return st.tuples(st.sampled_from(names), st.tuples(*args), st.fixed_dictionaries(terms))


_ADD = st.builds(lambda job_id, terms, place: ("add", (job_id,), terms | place), _ID, _TERMS, _PLACES)
_CLAIM = _call(["claim"])
_CLAIM_CHILD = _call(["claim"], st.just(CHILDREN))
_FLOW = _call(
    ["add_flow"],
    st.sampled_from("pqa"),
    st.sampled_from("xyz"),
    st.sampled_from("uvw"),
    on_failure=st.sampled_from(["fail", "continue", "ignore", "remove"]),
    priority=st.sampled_from([0, 0, 2]),
    attempts=st.integers(1, 2),
)
_END = _call(["complete", "fail"], _CLAIMED, claims_next=st.booleans())

CALLS: st.SearchStrategy[list[Call]] = st.lists(
    st.one_of(
        _ADD,
        _ADD,
        _CLAIM,
        _CLAIM,
        _END,
        _END,
        _END,
        _FLOW,
        _CLAIM_CHILD,
        _CLAIM_CHILD,
        _call(["remove_children"], st.sampled_from("pqa")),
        _call(["retry", "release", "extend"], _CLAIMED),
        _call(["snooze"], _CLAIMED, st.just(2.0)),
        _call(["promote", "rerun", "remove"], _ID),
        _call(["progress"], _ID, st.integers(0, 100)),
        _call(["log"], _ID, st.just("line")),
        _call(["pause"], paused=st.booleans()),
        _call(["drain"], delayed=st.booleans()),
        _call(["limit", "concurrency"], st.sampled_from([1, 2, None])),
        _call(["expire"], _KEYS),
        _call(["rescue"]),
        _call(["pass_time"], st.just(1.0)),
        _call(["schedule"], st.sampled_from(["s1", "s2"]), every_hours=st.sampled_from([1.0, 2.0])),
        _call(["schedule"], st.sampled_from(["s1", "s2"]), cron=st.just("30 * * * *"), attempts=st.integers(1, 2)),
    ),
    max_size=30,
)
