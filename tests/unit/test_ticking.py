"""A claimed tick: its schedule goes on, and its data say for which time it runs."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from homing.clock import ManualClock
from homing.errors import ServerUnavailable
from homing.ids import JobId, LeaseToken, new_token
from homing.metrics import Metrics
from homing.queue.job import ClaimedJob, Lease
from homing.queue.memory import MemoryEngine
from homing.queue.port import ClaimRequest
from homing.queue.schedules import Advanced, Schedule, TickId, read_tick
from homing.worker.ticking import Ticker, with_due_time

START = datetime(2026, 3, 28, 2, 30, tzinfo=UTC)
QUARTERS = Schedule(id="quarters", job_name="count", cron="*/15 * * * *", data='{"eventId": "x", "payload": {"n": 1}}')


async def test_a_late_tick_is_followed_by_one_in_the_future_and_the_missed_are_counted() -> None:
    """Nobody ran for an hour: one tick runs late, three never will, the next is the next quarter."""
    clock = ManualClock(at=START)
    engine, metrics = MemoryEngine(clock), Metrics("test")
    await engine.upsert_schedules("q", [QUARTERS])
    clock.advance(timedelta(hours=1, minutes=1))
    claimed = await engine.claim("q", ClaimRequest(new_token(), 30.0))
    assert isinstance(claimed, ClaimedJob)
    ticker = Ticker(engine, metrics, ["quarters"])
    followed = await ticker.follow(claimed)
    await ticker.follow(claimed)  # claimed again after a rescue
    payload = json.loads(followed.data)["payload"]
    assert payload == {"schedule": "quarters", "dueAt": "2026-03-28T02:45:00+00:00", "n": 1}
    (held,) = await engine.schedules("q")
    assert datetime.fromtimestamp(held.next_ms / 1000, UTC) == START + timedelta(hours=1, minutes=15)
    labels = {"app": "test", "schedule": "quarters"}
    assert metrics.registry.get_sample_value("homing_schedule_missed_total", labels) == 3
    fired = (START + timedelta(minutes=15)).timestamp()
    assert metrics.registry.get_sample_value("homing_schedule_last_fire_timestamp_seconds", labels) == fired


@pytest.mark.parametrize(
    ("data", "payload"),
    [
        ("{}", {}),
        ('{"a": 1}', {"a": 1}),
        ('{"payload": 5}', {"payload": 5}),
        ('{"eventId": "x", "payload": {"schedule": "mine"}}', {"schedule": "mine"}),
    ],
)
def test_what_a_schedule_of_node_carries_is_the_payload(data: str, payload: dict[str, object]) -> None:
    """Bare data become the payload of an envelope whose id is the tick's."""
    sealed = json.loads(with_due_time(_claimed(data), TickId("s", 0)).data)
    assert sealed["payload"] == {"schedule": "s", "dueAt": "1970-01-01T00:00:00+00:00"} | payload
    assert sealed["eventId"]


@pytest.mark.parametrize("data", ["[]", "no json", "null", '"text"', "[" * 100_000])
def test_data_that_are_no_object_stay_as_they_are(data: str) -> None:
    """Whoever runs the tick refuses them, with the data as they came."""
    assert with_due_time(_claimed(data), TickId("s", 0)).data == data


@pytest.mark.parametrize("error", [ServerUnavailable("away"), ValueError("what is H?")])
async def test_a_chain_that_cannot_go_on_does_not_stop_its_tick(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    """The tick runs, and it is said; the look mends the chain."""

    class Broken(MemoryEngine):
        async def advance(self, queue: str, tick: TickId) -> Advanced | None:
            raise error

    followed = await Ticker(Broken(), Metrics("test"), []).follow(_claimed("{}"))
    assert "dueAt" in followed.data
    assert "next tick" in caplog.text


@pytest.mark.parametrize(
    "job_id",
    ["repeat:", "repeat::1", "repeat:x:", "repeat:x:1a", "repeat:x:-1", "x:1", "repeat:x:²", "repeat:x:" + "1" * 17],
)
def test_what_is_no_tick_is_none(job_id: str) -> None:
    """Ids come from anybody."""
    assert read_tick(job_id) is None


def _claimed(data: str) -> ClaimedJob:
    lease = Lease("q", JobId("repeat:s:0"), LeaseToken("t"))
    return ClaimedJob(lease=lease, name="count", data=data, timestamp_ms=5, attempts=1, starts=1, attempts_made=0)
