"""The thread that renews leases: one call a beat for all of them, each by job and token, and nothing that happens in a beat ends it."""

import logging
from collections.abc import AsyncIterator, Callable, Sequence

import pytest

from homing.errors import ServerUnavailable
from homing.ids import JobId, LeaseToken
from homing.queue.job import Lease
from homing.queue.port import Held
from homing.worker.leases import LeaseKeeper
from tests.waiting import until

BEAT_SECONDS = 0.01


class Engine:
    """Answers what the test says, or raises it, and remembers the leases of every call."""

    def __init__(self) -> None:
        self.calls: list[set[Lease]] = []
        self.says: Callable[[Lease], Held] = lambda _: Held.HELD
        self.raises: Exception | None = None
        self.closed = False

    def extend(self, leases: Sequence[Lease], lease_seconds: float) -> list[Held]:
        self.calls.append(set(leases))
        if self.raises is not None:
            raise self.raises
        return [self.says(lease) for lease in leases]

    def close(self) -> None:
        self.closed = True

    async def beats(self, times: int = 1) -> list[set[Lease]]:
        """Wait for so many whole beats from now on; what they renewed. The first one may have begun before."""
        before = len(self.calls) + 1
        await until(lambda: len(self.calls) >= before + times, what=f"{times} beats")
        return self.calls[before : before + times]


class Kept:
    """A keeper at work, its engine, and the leases that it was told are taken."""

    def __init__(self) -> None:
        self.engine = Engine()
        self.taken: list[Lease] = []
        self.keeper = LeaseKeeper(
            self.engine, lease_seconds=30.0, beat_seconds=BEAT_SECONDS, on_taken=self.taken.append
        )


@pytest.fixture
async def kept() -> AsyncIterator[Kept]:
    made = Kept()
    made.keeper.start()
    yield made
    await made.keeper.stop()
    assert made.engine.closed


def lease(token: str, job: str = "17") -> Lease:
    return Lease("mail", JobId(job), LeaseToken(token))


async def test_many_leases_are_one_call(kept: Kept) -> None:
    """However many runs there are, a batch of a hundred included, a beat asks once."""
    leases = {lease(f"t{number}", f"j{number}") for number in range(100)}
    kept.keeper.hold(leases)
    assert await kept.engine.beats(3) == [leases] * 3


async def test_the_end_of_one_run_ends_no_renewal_of_another_of_its_job(kept: Kept) -> None:
    """One process may run a job a second time while its first run still ends: what is dropped is that run's own token."""
    first, second = lease("first"), lease("second")
    kept.keeper.hold([first])
    kept.keeper.hold([second])
    assert await kept.engine.beats() == [{first, second}]
    kept.keeper.drop([first])
    assert await kept.engine.beats(3) == [{second}] * 3
    kept.keeper.drop([first])
    assert await kept.engine.beats() == [{second}]


async def test_a_taken_lease_is_told_once_and_asked_for_no_more(kept: Kept) -> None:
    """The run that lost it is told; the one that holds the job now, in this process even, hears nothing and is renewed."""
    lost, held = lease("lost"), lease("held")
    kept.engine.says = lambda one: Held.TAKEN if one == lost else Held.HELD
    kept.keeper.hold([lost, held])
    await until(lambda: kept.taken, what="it is told")
    assert await kept.engine.beats(3) == [{held}] * 3
    assert kept.taken == [lost]


async def test_a_lease_whose_run_has_ended_meanwhile_is_not_told(kept: Kept) -> None:
    """An answer that comes after the end of the run is nobody's."""
    ended = lease("ended")

    def end_it(one: Lease) -> Held:
        kept.keeper.drop([one])
        return Held.TAKEN

    kept.engine.says = end_it
    kept.keeper.hold([ended])
    await until(lambda: kept.engine.calls, what="a beat")
    kept.keeper.hold([other := lease("other", "18")])
    kept.engine.says = lambda _: Held.HELD
    assert await kept.engine.beats() == [{other}]
    assert kept.taken == []


async def test_a_missing_lease_is_said_once_and_renewed_on(kept: Kept, caplog: pytest.LogCaptureFixture) -> None:
    """The engine lost it: the run goes on, and its lease is asked for at every beat."""
    missing = lease("missing")
    kept.engine.says = lambda _: Held.MISSING
    kept.keeper.hold([missing])
    assert await kept.engine.beats(3) == [{missing}] * 3
    assert [line for line in caplog.messages if "its lease is missing" in line] == [
        "job 17: its lease is missing in the engine; the run goes on"
    ]
    assert kept.taken == []


@pytest.mark.parametrize(
    "error", [ServerUnavailable("no answer"), ZeroDivisionError("ours")], ids=["server", "mistake"]
)
async def test_a_beat_that_fails_is_not_the_last(
    kept: Kept, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    """A server that is away is one line and one for its end; a mistake of ours is told; the leases are renewed all the same."""
    caplog.set_level(logging.INFO)
    held = lease("held")
    kept.keeper.hold([held])
    kept.engine.raises = error
    assert await kept.engine.beats(3) == [{held}] * 3
    with pytest.raises(type(error)):
        await kept.keeper.confirm(held)
    kept.engine.raises = None
    assert await kept.keeper.confirm(held) is Held.HELD
    assert await kept.engine.beats(2) == [{held}] * 2
    assert "1 leases were not renewed" in caplog.text
    if isinstance(error, ServerUnavailable):
        assert [line for line in caplog.messages if "renewed" in line] == [
            "1 leases were not renewed, trying each beat: no answer",
            "leases are renewed again",
        ]


async def test_after_the_stop_nothing_is_asked(kept: Kept) -> None:
    """Questions that come too late are refused at once, and a second stop is nothing."""
    kept.keeper.hold([lease("held")])
    await kept.engine.beats()
    await kept.keeper.stop()
    asked = len(kept.engine.calls)
    with pytest.raises(ServerUnavailable, match="the worker has stopped"):
        await kept.keeper.confirm(lease("held"))
    await kept.keeper.stop()
    assert len(kept.engine.calls) == asked
