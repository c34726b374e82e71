"""How a process stands at every stage of its life, and what its pulse tells."""

from collections.abc import Iterator

import pytest
from prometheus_client import generate_latest

from homing.clock import ManualClock
from homing.config.settings import Settings
from homing.durations import seconds
from homing.errors import ConfigurationError, ServerUnavailable
from homing.ledger.ledger import LEDGER
from homing.metrics import Metrics
from homing.processes.endpoint import served
from homing.processes.http import HealthServer
from homing.processes.pulse import MOST_NAMES, OTHER, Pulse, parked_series
from homing.processes.standing import Standing
from homing.processes.watchdog import Watchdog
from homing.queue.parked import ParkedJobs, ParkedKind
from homing.service import Loop, Outages, Progress
from homing.worker.health import Health
from tests.waiting import until


async def _rest() -> Progress:
    return Progress.REST


class Scene:
    """A standing with loops that turned just now, and a watchdog that a test may tell what it sees."""

    def __init__(self, *names: str) -> None:
        self.clock = ManualClock()
        self.loops = [Loop(name, _rest, interval_seconds=1, clock=self.clock) for name in names]
        for loop in self.loops:
            loop.start()
        self.watchdog = Watchdog(self.loops, end=lambda: None, patience_seconds=10, clock=self.clock)
        self.outages = Outages()
        self.standing = Standing("worker", self.clock)
        self.paused = False
        self.standing.watch(self.loops, self.watchdog, self.outages, lambda: self.paused)

    def health(self) -> Health:
        return self.standing.health()


async def test_from_start_to_end() -> None:
    """Starting and draining is live and not ready; in between it is both."""
    starting = Standing("relay").health()
    assert (starting.live, starting.ready, starting.reasons) == (True, False, ("the relay is starting",))
    scene = Scene("claim")
    assert scene.health() == Health(live=True, ready=True, reasons=())
    scene.standing.drain()
    assert scene.health() == Health(live=True, ready=False, reasons=("the worker is stopping",))


async def test_a_wedged_loop_is_not_live() -> None:
    """A loop that has not turned for longer than it may, while the event loop turns."""
    scene = Scene("claim", "beat")
    scene.clock.advance(seconds(126))
    health = scene.health()
    assert not health.live
    assert "the loop claim is stuck" in health.reasons[0]


async def test_a_blocked_event_loop_is_not_ready_and_after_its_patience_not_live() -> None:
    """The loops on it are not blamed; the blockage itself is, once it lasts longer than a run may."""
    scene = Scene("claim")
    scene.watchdog.blocked_since = 0.0
    scene.clock.advance(seconds(9))
    assert scene.health() == Health(live=True, ready=False, reasons=("the event loop has not turned for 9 s",))
    scene.clock.advance(seconds(200))
    assert scene.health() == Health(live=False, ready=False, reasons=("the event loop has not turned for 209 s",))


async def test_a_server_that_is_away_is_named_once() -> None:
    """However many loops wait for it; and the ledger's own doubt adds nothing."""
    scene = Scene("claim", "rescue:a", "route")
    scene.paused = True
    scene.outages.begin("claim", ServerUnavailable("refused"))
    scene.outages.begin("rescue:a", ServerUnavailable("refused"))
    scene.outages.begin("route", ServerUnavailable("refused", server=LEDGER))
    assert scene.health().reasons == ("Redis does not answer", "PostgreSQL does not answer")
    assert scene.health().live


async def test_polling_alone_is_ready() -> None:
    """Where notifications cannot be heard, work is later and not away."""
    scene = Scene("listen", "claim")
    scene.outages.begin("listen", ServerUnavailable("a pooler is in the way", server=LEDGER))
    scene.loops[0]._away = True
    assert scene.health().ready


async def test_the_pulse_tells_servers_loops_and_lateness() -> None:
    """What is away is 0, an outage that ended is counted, and every loop has its moment."""
    scene, metrics = Scene("claim"), Metrics("shop")
    pulse = Pulse(metrics, scene.standing, engine="redis", clock=scene.clock)
    scene.outages.begin("claim", ServerUnavailable("refused"))
    await pulse.tick()
    pulse.note_back("")
    text = generate_latest(metrics.registry).decode()
    assert 'homing_backend_up{app="shop",backend="redis"} 0.0' in text
    assert 'homing_backend_up{app="shop",backend="postgres"} 1.0' in text
    assert 'homing_backend_reconnects_total{app="shop",backend="redis"} 1.0' in text
    assert 'homing_loop_last_tick_timestamp_seconds{app="shop",loop="claim"} 1.767' in text
    assert 'engine="redis"' in text


async def test_lateness_is_measured_from_a_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A blocked event loop is seen by the turn that comes late."""
    monkeypatch.setattr("homing.processes.pulse.LAG_SECONDS", 0.0)
    scene, metrics = Scene(), Metrics("shop")
    pulse = Pulse(metrics, scene.standing, engine="redis")
    await pulse.tick()
    counted = b'homing_event_loop_lag_seconds_count{app="shop"} 1.0'
    await until(lambda: counted in generate_latest(metrics.registry), what="one turn is measured")


def test_parked_names_are_bounded() -> None:
    """Producers may invent any number of names: the most frequent ones are shown, and the sum of the rest."""
    kinds = [ParkedJobs(ParkedKind(f"job{number}"), number + 1) for number in range(MOST_NAMES + 5)]
    series = parked_series({"mail": [*kinds, ParkedJobs(ParkedKind("job24", version=2), 10)], "sms": []})
    assert len(series) == MOST_NAMES + 1
    assert series["mail", "job24"] == 35
    assert series["mail", OTHER] == 1 + 2 + 3 + 4 + 5


@pytest.fixture
def taken() -> Iterator[str]:
    """An address that somebody listens on."""
    server = HealthServer("127.0.0.1:0", {})
    server.start()
    yield server.address
    server.close()


def test_an_address_that_somebody_chose_must_be_free(taken: str) -> None:
    """An error before anything runs, with the address."""
    with pytest.raises(ConfigurationError, match=taken), served(Settings(http_address=taken), {}):
        pass


def test_the_default_address_may_be_another_worker_s(taken: str, caplog: pytest.LogCaptureFixture) -> None:
    """A second worker on a machine works without an endpoint, and says so; `off` says nothing."""
    settings = Settings.model_construct(http_address=taken, _fields_set=set())
    with served(settings, {}) as address:
        assert address is None
    assert "health and metrics of this process are not served" in caplog.text
    caplog.clear()
    with served(Settings(http_address="off"), {}) as address:
        assert (address, caplog.text) == (None, "")
