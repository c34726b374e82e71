"""`homing worker` and `homing relay`: the processes that run until they are told to stop."""

from collections.abc import Mapping
from typing import Annotated, Protocol

import typer

from homing.app import Homing
from homing.cli.features import feature
from homing.cli.session import session_of
from homing.config.settings import Settings
from homing.config.sources import did_you_mean
from homing.errors import ConfigurationError


class RunWorker(Protocol):
    """`homing.processes.worker.run_worker`: runs until it is told to stop, and returns the exit code."""

    def __call__(
        self, app: Homing, settings: Settings, *, queues: Mapping[str, int | None] | None, with_relay: bool
    ) -> int: ...


class RunRelay(Protocol):
    """`homing.processes.relay.run_relay`: the same for a relay alone."""

    def __call__(self, app: Homing, settings: Settings) -> int: ...


def worker_verb(
    context: typer.Context,
    *,
    queues: Annotated[
        str | None, typer.Option(help="The queues to serve, as in payments,shipping:4; all otherwise.", metavar="a,b:4")
    ] = None,
    no_relay: Annotated[bool, typer.Option("--no-relay", help="Leave routing and repair to `homing relay`.")] = False,
) -> None:
    """Run the handlers, and the relay with them, until SIGTERM or SIGINT."""
    session = session_of(context)
    settings = session.settings(worker_queues=queues)
    app = session.application(settings)
    _refuse_unknown_queues(app, settings.worker_queues)
    settings.redis_dsn  # noqa: B018 - refuses an engine that this process could not run on
    run_worker: RunWorker = feature("homing.processes.worker", "run_worker", verb="worker", extra="redis")
    raise typer.Exit(run_worker(app, settings, queues=settings.worker_queues, with_relay=not no_relay))


def relay_verb(context: typer.Context) -> None:
    """Route recorded events, hand them to the engine and repair what it loses, until SIGTERM or SIGINT."""
    session = session_of(context)
    settings = session.settings()
    app = session.application(settings)
    settings.redis_dsn  # noqa: B018 - as above
    run_relay: RunRelay = feature("homing.processes.relay", "run_relay", verb="relay", extra="redis")
    raise typer.Exit(run_relay(app, settings))


def _refuse_unknown_queues(app: Homing, chosen: Mapping[str, int | None] | None) -> None:
    known = [queue.name for queue in app.queues]
    for name in chosen or ():
        if name not in known:
            raise ConfigurationError(f"app {app.name!r} has no queue {name!r}{did_you_mean(name, known)}")
