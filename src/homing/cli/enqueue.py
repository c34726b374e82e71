"""`homing enqueue`: one job for a queue of the app, outside the outbox."""

import asyncio
import json
import sys
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any

import typer

from homing.app import Homing, Queue
from homing.cli.acting import person
from homing.cli.apps import application_of
from homing.cli.exits import Exit
from homing.cli.job_options import WhyOption
from homing.cli.ledgers import open_ledger
from homing.cli.output import show_error, show_json, show_text
from homing.cli.session import Session, session_of
from homing.client import Deduplicate, EnqueueOptions, Handle
from homing.config.sources import did_you_mean
from homing.durations import parse_duration
from homing.errors import EnqueueError, JobFailed, JobGone, PayloadError, ResultTimeout, UnknownId
from homing.harmless import clean, clean_line
from homing.ledger.actions import Person
from homing.ledger.ledger import Ledger
from homing.operations.enqueueing import data_for, enqueue

_LONGEST_RESULT = 10_000


@dataclass(frozen=True, slots=True)
class _Order:
    """What the line says: a job's name and data, its options, and how long to wait for its end."""

    job: str
    data: str
    options: EnqueueOptions
    wait: timedelta | None

    async def place(self, app: Homing, queue: Queue, ledger: Ledger, who: Person) -> Handle[Any]:
        """Add the job."""
        elsewhere = bool(self.options.get("elsewhere"))
        data = data_for(app, queue, self.job, _object(self.data), elsewhere=elsewhere)
        return await enqueue(ledger, queue, self.job, data, options=self.options, person=who)


def enqueue_verb(
    context: typer.Context,
    queue: Annotated[str, typer.Argument(help="A queue of the app.", metavar="QUEUE")],
    job: Annotated[str, typer.Argument(help="The name of the job: a handler of the queue.", metavar="JOB")],
    data: Annotated[
        str, typer.Argument(help="The fields of its event as JSON; - reads them from standard input.")
    ] = "{}",
    *,
    job_id: Annotated[
        str | None, typer.Option("--id", help="The job's own name; adding it twice is adding it once.")
    ] = None,
    delay: Annotated[str | None, typer.Option("--delay", help="Run it no earlier.", metavar="DURATION")] = None,
    priority: Annotated[
        int, typer.Option("--priority", help="1 is first, after all jobs without one.", metavar="N")
    ] = 0,
    lifo: Annotated[bool, typer.Option("--lifo", help="Before all that wait.")] = False,
    deduplicate: Annotated[
        str | None, typer.Option("--deduplicate", help="Only if no other job of this id counts.", metavar="ID")
    ] = None,
    ttl: Annotated[
        str | None, typer.Option("--ttl", help="With --deduplicate: it counts for so long.", metavar="DURATION")
    ] = None,
    extend: Annotated[bool, typer.Option("--extend", help="With --ttl: begin it anew.")] = False,
    replace: Annotated[bool, typer.Option("--replace", help="With --deduplicate: a delayed job makes way.")] = False,
    keep_last: Annotated[
        bool,
        typer.Option(
            "--keep-last-if-active", help="With --deduplicate: while one runs, keep the last and add it then."
        ),
    ] = False,
    elsewhere: Annotated[
        bool, typer.Option("--elsewhere", help="For a worker of another system: any name, any JSON object.")
    ] = False,
    wait: Annotated[
        str | None, typer.Option("--wait", help="Wait so long for its end, and print the result.", metavar="DURATION")
    ] = None,
    why: WhyOption = None,
) -> None:
    """Add a job now, outside any transaction: as durable as Redis. What must not be lost is recorded by the application instead.

    With --wait the exit code is 1 for a job that failed, was removed, or has not ended in time.
    """
    session = session_of(context)
    options = EnqueueOptions(priority=priority, lifo=lifo, elsewhere=elsewhere)
    if job_id is not None:
        options["id"] = job_id
    if delay is not None:
        options["delay"] = _duration(delay, "--delay")
    lasts = None if ttl is None else _duration(ttl, "--ttl")
    if deduplicate is not None:
        options["deduplicate"] = Deduplicate(
            deduplicate, ttl=lasts, extend=extend, replace=replace, keep_last_if_active=keep_last
        )
    elif lasts or extend or replace or keep_last:
        raise typer.BadParameter("say --deduplicate ID too: it is how jobs are told to be the same", param_hint="--ttl")
    text = sys.stdin.read() if data == "-" else data
    patience = None if wait is None else _duration(wait, "--wait")
    _run(session, queue, _Order(job, text, options, patience), person(why))


def _run(session: Session, name: str, order: _Order, who: Person) -> None:
    settings = session.settings()
    app = application_of(settings)
    try:
        asyncio.run(_enqueue(session, app, _queue(app, name), order, who))
    except (EnqueueError, PayloadError) as error:
        raise typer.BadParameter(str(error)) from error
    except (JobFailed, JobGone, ResultTimeout) as error:
        show_error(clean_line(str(error), _LONGEST_RESULT))
        raise typer.Exit(Exit.FOUND_WRONG) from error


async def _enqueue(session: Session, app: Homing, queue: Queue, order: _Order, who: Person) -> None:
    try:
        async with open_ledger(app.settings, "enqueue") as ledger:
            handle = await order.place(app, queue, ledger, who)
        if not session.json:
            show_text(f"{clean_line(handle.id)}{' (it was there already)' if handle.deduplicated else ''}")
        result = None if order.wait is None else await handle.result(order.wait)
        _tell(session, handle, result, waited=order.wait is not None)
    finally:
        await app.close()


def _tell(session: Session, handle: Handle[Any], result: object, *, waited: bool) -> None:
    if session.json:
        told = {"queue": handle.queue, "id": handle.id, "deduplicated": handle.deduplicated}
        show_json(told | ({"result": result} if waited else {}))
    elif waited:
        show_text(clean(json.dumps(result, ensure_ascii=False, indent=2), _LONGEST_RESULT))


def _queue(app: Homing, name: str) -> Queue:
    queues = {queue.name: queue for queue in app.queues}
    if name not in queues:
        raise UnknownId(f"app {app.name!r} declares no queue {name!r}{did_you_mean(name, queues)}")
    return queues[name]


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise PayloadError(f"the data is no JSON: {error}") from error
    if not isinstance(value, dict):
        raise PayloadError(
            f"the data is {type(value).__name__}, and a job's data is a JSON object, as in '{{\"orderId\": 7}}'"
        )
    return value


def _duration(text: str, option: str) -> timedelta:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from error
