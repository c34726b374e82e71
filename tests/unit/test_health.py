"""Health is a judgement over what loops show: dead and stuck are not live, waiting and stopping are only not ready."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homing.service import Turning
from homing.worker.health import judge_health


def turning(name: str = "claim", *, dead: bool = False, away: bool = False, silent: float = 0.0) -> Turning:
    return Turning(name=name, dead=dead, away=away, silent_seconds=silent, allowed_seconds=65)


turnings = st.lists(
    st.builds(turning, st.text(max_size=8), dead=st.booleans(), away=st.booleans(), silent=st.floats(0, 200))
)


def test_worker_whose_loops_turn_is_live_and_ready() -> None:
    """Nothing to say means that all is well."""
    health = judge_health([turning(), turning("rescue:a", silent=64)], draining=False, paused=False)
    assert (health.live, health.ready, health.reasons) == (True, True, ())


@pytest.mark.parametrize(
    ("loop", "reason"),
    [
        (turning(dead=True), "the loop claim is dead"),
        (turning(silent=65.1), "the loop claim is stuck: it has not turned within 65 s"),
    ],
)
def test_one_dead_or_stuck_loop_makes_the_worker_dead(loop: Turning, reason: str) -> None:
    """A process that is up is not a worker that works."""
    health = judge_health([turning("rescue:a"), loop], draining=False, paused=False)
    assert (health.live, health.ready, health.reasons) == (False, False, (reason,))


def test_worker_without_its_servers_is_live_and_not_ready() -> None:
    """A restart brings no server back: what waits for one stays alive, and says what it waits for."""
    health = judge_health([turning(away=True)], draining=False, paused=True)
    assert (health.live, health.ready) == (True, False)
    assert health.reasons == ("the loop claim waits for a server", "the ledger does not answer")


def test_draining_is_live_and_not_ready() -> None:
    """A worker that finishes its runs must not be killed for it, and takes nothing new."""
    health = judge_health([turning()], draining=True, paused=False)
    assert (health.live, health.ready, health.reasons) == (True, False, ("the worker is stopping",))


@given(turnings, st.booleans(), st.booleans())
def test_health_holds_together(loops: list[Turning], draining: bool, paused: bool) -> None:  # noqa: FBT001 - Hypothesis passes them
    """Ready means live, a reason is given exactly when something is wrong, and draining or waiting changes no liveness."""
    health = judge_health(loops, draining=draining, paused=paused)
    assert health.live or not health.ready
    assert health.ready == (not health.reasons)
    for other_draining, other_paused in itertools.product((True, False), repeat=2):
        assert judge_health(loops, draining=other_draining, paused=other_paused).live == health.live
