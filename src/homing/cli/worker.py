"""`homing worker` and `homing relay`: the processes that run until they are told to stop."""

import sys
from collections.abc import Mapping, Sequence
from typing import Annotated, Protocol

import typer

from homing.app import Homing
from homing.cli.apps import application_of
from homing.cli.features import feature
from homing.cli.session import Session, session_of
from homing.config.settings import Settings
from homing.config.sources import did_you_mean
from homing.errors import ConfigurationError


class RunWorker(Protocol):
    """`homing.processes.worker.run_worker`: runs until it is told to stop, and returns the exit code."""

    def __call__(
        self,
        app: Homing,
        settings: Settings,
        *,
        queues: Mapping[str, int | None] | None,
        with_relay: bool,
        supervised: bool,
    ) -> int: ...


class Supervise(Protocol):
    """`homing.processes.supervisor.supervise`: one worker for each command line, replaced when it dies."""

    def __call__(self, commands: Sequence[Sequence[str]], settings: Settings) -> int: ...


class RunRelay(Protocol):
    """`homing.processes.relay.run_relay`: the same for a relay alone."""

    def __call__(self, app: Homing, settings: Settings) -> int: ...


def worker_verb(
    context: typer.Context,
    *,
    queues: Annotated[
        str | None, typer.Option(help="The queues to serve, as in payments,shipping:4; all otherwise.", metavar="a,b:4")
    ] = None,
    processes: Annotated[
        int | None, typer.Option(help="So many workers under a supervisor that replaces one that dies.", metavar="N")
    ] = None,
    no_relay: Annotated[bool, typer.Option("--no-relay", help="Leave routing and repair to `homing relay`.")] = False,
    supervised: Annotated[bool, typer.Option("--supervised", hidden=True)] = False,
) -> None:
    """Run the handlers, and the relay with them. Stops in good order on SIGTERM or SIGINT."""
    session = session_of(context)
    settings = session.settings(worker_queues=queues, worker_processes=processes)
    if settings.worker_processes > 1 and not supervised:
        commands = _commands(session, queues, count=settings.worker_processes, with_relay=not no_relay)
        supervise: Supervise = feature("homing.processes.supervisor", "supervise", verb="worker", extra="redis")
        raise typer.Exit(supervise(commands, settings))
    app = application_of(settings)
    _refuse_unknown_queues(app, settings.worker_queues)
    settings.redis_dsn  # noqa: B018 - refuses an engine that this process could not run on
    run_worker: RunWorker = feature("homing.processes.worker", "run_worker", verb="worker", extra="redis")
    raise typer.Exit(
        run_worker(app, settings, queues=settings.worker_queues, with_relay=not no_relay, supervised=supervised)
    )


def relay_verb(context: typer.Context) -> None:
    """Route events, hand them to the engine, repair its losses. For workers that run with `--no-relay`; stops in good order on SIGTERM or SIGINT."""
    session = session_of(context)
    settings = session.settings()
    app = application_of(settings)
    settings.redis_dsn  # noqa: B018 - as above
    run_relay: RunRelay = feature("homing.processes.relay", "run_relay", verb="relay", extra="redis")
    raise typer.Exit(run_relay(app, settings))


def _commands(session: Session, queues: str | None, *, count: int, with_relay: bool) -> list[list[str]]:
    """The command line of each worker. The relay turns in the first one alone: more would ask the same questions again."""
    worker = [sys.executable, "-m", "homing", *session.arguments(), "worker", "--supervised"]
    if queues is not None:
        worker += ["--queues", queues]
    return [worker if with_relay and number == 0 else [*worker, "--no-relay"] for number in range(count)]


def _refuse_unknown_queues(app: Homing, chosen: Mapping[str, int | None] | None) -> None:
    known = [queue.name for queue in app.served_queues]
    for name in chosen or ():
        if name not in known and name in [queue.name for queue in app.queues]:
            raise ConfigurationError(
                f"queue {name!r} of app {app.name!r} has consumers in other systems only: nothing of it runs here"
            )
        if name not in known:
            raise ConfigurationError(f"app {app.name!r} has no queue {name!r}{did_you_mean(name, known)}")
