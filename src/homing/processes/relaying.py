"""The loops that make up a relay, for a process of its own or inside a worker."""

from homing.app.application import Homing
from homing.app.options import DEFAULTS
from homing.app.retention import outliving_jobs
from homing.app.series import begin_series
from homing.config.logs import log_fields
from homing.config.settings import Settings
from homing.deadletters.deadletters import DeadLetters
from homing.deadletters.runner import CampaignRunner
from homing.ledger.ledger import Ledger
from homing.metrics import Metrics
from homing.queue.port import Engine
from homing.relay import Dispatcher, Families, Listener, QueueWatch, Relay, Sweep, Unroutable
from homing.scheduler import Keeper
from homing.service import Loop, stop_all
from homing.upkeep import Prune

WATCH_SECONDS = 1.0
LISTEN_SECONDS = 10.0
UNROUTABLE_SECONDS = 15.0
SCHEDULES_SECONDS = 5.0
PRUNE_SECONDS = 600.0
REDRIVE_SECONDS = 1.0


class RelayLoops:
    """Watch, route and dispatch, sweep, listen, count, prune, redrive: started together, stopped together."""

    def __init__(
        self,
        app: Homing,
        settings: Settings,
        *,
        ledger: Ledger,
        engine: Engine,
        metrics: Metrics | None = None,
    ) -> None:
        self.metrics = metrics or Metrics(app.name)
        self.keeper = Keeper(ledger, engine)
        self.watch = QueueWatch(ledger, engine, restore=self.keeper.restore)
        self.dispatcher = Dispatcher(ledger, engine, self.watch, self.metrics)
        self.relay = Relay(ledger, self.watch, self.dispatcher, page=settings.relay_batch, metrics=self.metrics)
        self.sweep = Sweep(
            ledger,
            engine,
            self.watch,
            self.dispatcher,
            DeadLetters(ledger, self.metrics),
            grace_seconds=settings.look_grace.total_seconds(),
            deadline_seconds=app_deadline_seconds(),
            rate=settings.look_rate,
            metrics=self.metrics,
        )
        self.families = Families(
            ledger, engine, self.watch, sweeper=self.sweep.id, deadline_seconds=app_deadline_seconds()
        )
        self.unroutable = Unroutable(ledger)
        self.prune = Prune(
            ledger,
            settings.retention,
            outliving=outliving_jobs(app.queues, app.handlers, settings.retention),
            metrics=self.metrics,
        )
        self.redrive = CampaignRunner(ledger, metrics=self.metrics)
        self.route = Loop("route", self.relay.tick, interval_seconds=settings.relay_poll.total_seconds())
        self.listener = Listener(settings.listen_dsn, ledger, self.route.wake)
        self.loops = [
            Loop("watch", self.watch.tick, interval_seconds=WATCH_SECONDS),
            self.route,
            Loop("sweep", self.sweep.tick, interval_seconds=settings.look.total_seconds()),
            Loop("families", self.families.tick, interval_seconds=settings.review.total_seconds()),
            Loop("listen", self.listener.tick, interval_seconds=LISTEN_SECONDS),
            Loop("schedules", self.keeper.tick, interval_seconds=SCHEDULES_SECONDS),
            Loop("prune", self.prune.tick, interval_seconds=PRUNE_SECONDS),
            Loop("redrive", self.redrive.tick, interval_seconds=REDRIVE_SECONDS),
            Loop("unroutable", self.unroutable.tick, interval_seconds=UNROUTABLE_SECONDS),
        ]
        self._app = app

    async def start(self) -> None:
        """Verify the queues once, so that the first events need not wait, and let the loops turn."""
        begin_series(self._app, self.metrics)
        await self.watch.tick()
        with log_fields(app=self._app.name):  # what the loops start inherits it
            for loop in self.loops:
                loop.start()

    async def stop(self) -> None:
        """Finish the batch in flight, and end."""
        await stop_all(self.loops)
        await self.sweep.stop()
        await self.listener.close()


def app_deadline_seconds() -> float:
    """The deadline of a delivery whose subscription says nothing."""
    return DEFAULTS.policy().deadline_seconds
