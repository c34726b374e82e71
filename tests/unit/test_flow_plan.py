"""From the children that a handler names to jobs: always the same ones, and none that cannot be."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from homing import Child, Event, Flow, FlowError, Homing, Retry, SyncFlow
from homing.app.flow_plan import Above, Planned, Routes, key_of, plan
from homing.errors import RegistrationError
from homing.events.envelope import foreign_id, unseal
from homing.ids import JobId
from homing.queue.parent import JobRef, Parent
from homing.trace import Trace

app = Homing("planning", retry=Retry(attempts=4))
parcels, bills = app.queue("parcels"), app.queue("bills")


class Packed(Event, topic="plan.packed", aggregate="parcel", unrouted=True):
    parcel: str


class Weighed(Event, topic="plan.weighed", unrouted=True):
    parcel: str = "any"


@parcels.handler("ship", on=Packed, at_least_once=True)
async def ship(event: Packed) -> None:
    """Ships."""


@parcels.handler("weigh", on=Weighed, at_least_once=True, message_id="parcel")
async def weigh(event: Weighed) -> None:
    """Weighs."""


async def both(event: Packed) -> None:
    """One function for two jobs."""


bills.handler("one", on=Packed, at_least_once=True)(both)
bills.handler("two", on=Packed, at_least_once=True)(both)
parcels.consumer("label", on=Packed, foreign=True)

ROUTES = Routes(app.routes)
ABOVE = Above(
    ref=JobRef("bills", JobId("e.2.bills.one")),
    stem="e.bills.one",
    timestamp_ms=1_700_000_000_000,
    trace=Trace(trace_id="t"),
)
P0 = Packed(parcel="p0")


def planned(*children: Child) -> tuple[Planned, ...]:
    """The children as they are added below one job."""
    return plan(ROUTES, ABOVE, children)


def test_a_child_is_the_same_job_whenever_it_is_planned() -> None:
    """Its id comes from the event, the consumer and the key, whatever the generation; so does the id under which the ledger keeps it."""
    (child,) = planned(Child(ship, P0, delay=timedelta(seconds=2), priority=3))
    redriven = plan(ROUTES, replace(ABOVE, ref=JobRef("bills", JobId("e.3.bills.one"))), [Child(ship, P0)])[0]
    assert (child.key, child.ref) == ("ship-p0", JobRef("parcels", JobId("e.bills.one~ship-p0")))
    assert (redriven.ref, redriven.message) == (child.ref, child.message)
    job = child.job.job
    assert child.message == foreign_id("parcels", job.id, ABOVE.timestamp_ms)
    assert (job.name, job.attempts, job.delay_seconds, job.priority) == ("ship", 4, 2.0, 3)
    assert job.parent == Parent(ABOVE.ref, "fail")
    opened = unseal(job.data)
    assert (opened.event_id, opened.trace_id, opened.payload) == (child.message, "t", {"parcel": "p0"})
    assert key_of("e.bills.one", job.id) == "ship-p0"


def test_children_are_found_by_function_and_by_name_here_and_in_other_systems() -> None:
    """A consumer that another system runs is one of them; a name that says which of two jobs is meant, too."""
    refs = [one.ref for one in planned(Child("parcels.label", P0), Child("bills.two", P0, key="x"))]
    assert refs == [JobRef("parcels", JobId("e.bills.one~label-p0")), JobRef("bills", JobId("e.bills.one~x"))]


def test_a_message_that_names_itself_keeps_its_name() -> None:
    """The ledger is asked for the child under the id that its handler says."""
    one, other = planned(Child(weigh, Weighed(), key="a"), Child(weigh, Weighed(), key="b"))
    assert one.message == other.message
    assert one.ref != other.ref


def test_trees_list_parents_before_their_children() -> None:
    """And each job waits for those below it."""
    (top,) = planned(Child(ship, P0, key="top", children=[Child(ship, P0, key="a", on_failure="ignore")]))
    first, second = top.jobs
    assert (first.waits, second.waits) == (True, False)
    assert second.job.parent == Parent(first.ref, "ignore")
    assert second.job.id == "e.bills.one~top~a"


@pytest.mark.parametrize(
    ("children", "reason"),
    [
        ([Child("parcels.shipp", P0)], "no handler of this app; there are: bills.one, bills.two, parcels.label"),
        ([Child(both, P0)], "handles 2 jobs"),
        ([Child(ship, Weighed())], "takes Packed, unlike Weighed"),
        ([Child(ship, P0), Child(ship, P0)], "two children are called 'ship-p0'"),
        ([Child(ship, P0, key="a~b")], "the key 'a~b'"),
        ([Child(ship, P0, key="")], "the key ''"),
        ([Child(ship, P0, on_failure="retry")], "on_failure='retry' is none of fail, continue"),  # type: ignore[arg-type]
        ([Child(ship, P0, delay=-1.0)], "finite time of 0 or more"),
        ([Child(ship, P0, key=f"k{n}") for n in range(10_001)], "more than 10,000"),
    ],
    ids=["unknown", "ambiguous", "other event", "double", "bad key", "no key", "policy", "delay", "many"],
)
def test_what_cannot_be_says_why(children: list[Child], reason: str) -> None:
    """The offending value is named, and nothing is planned."""
    with pytest.raises(FlowError) as error:
        planned(*children)
    assert reason in str(error.value)


def test_ids_have_an_end() -> None:
    """A tree whose ids no engine takes is refused before anything is added."""
    deep: Any = Child(ship, P0, key="k" * 100)
    for _ in range(5):
        deep = Child(ship, P0, key="k" * 100, children=[deep])
    with pytest.raises(FlowError, match="at most 500 characters"):
        planned(deep)


def test_a_flow_is_awaited_and_belongs_to_one_event() -> None:
    """A batch and a child process cannot have one, and a plain def awaits nothing; each says so at registration."""
    queue = Homing("refusing").queue("q")

    def plain(event: Packed, flow: Flow) -> None: ...
    async def coroutine(event: Packed, flow: SyncFlow) -> None: ...
    async def batch(events: Sequence[Packed], flow: Flow) -> None: ...

    with pytest.raises(RegistrationError, match="annotate it as SyncFlow"):
        queue.handler("plain", on=Packed, at_least_once=True)(plain)
    with pytest.raises(RegistrationError, match="annotate it as Flow"):
        queue.handler("coroutine", on=Packed, at_least_once=True)(coroutine)
    with pytest.raises(RegistrationError, match="belongs to one event"):
        queue.handler("batch", on=Packed, at_least_once=True, batch=5)(batch)
    with pytest.raises(RegistrationError, match="cpu=True"):
        queue.handler("cpu", on=Packed, at_least_once=True, cpu=True)(plain)


def test_messages_are_told_apart_by_their_parents() -> None:
    """The same child of another event is another one."""
    (here,), (there,) = planned(Child(ship, P0)), plan(ROUTES, replace(ABOVE, stem="f.bills.one"), [Child(ship, P0)])
    assert here.message != there.message
    assert isinstance(here.message, UUID)
