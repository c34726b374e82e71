"""The application of `benchmarks.backlog`: a handler that reports each start to the benchmark. The backlog is another application's."""

import os
import socket
from collections.abc import AsyncIterator

from homing import Event, Homing, Provider


class Fresh(Event, topic="backlog.fresh", unrouted=True):
    """Handled at once."""


app = Homing("backlog")


@app.lifespan
async def resources(provide: Provider) -> AsyncIterator[None]:
    """A socket that leads to the benchmark."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as reporter:
        reporter.connect(("127.0.0.1", int(os.environ["BACKLOG_PORT"])))
        reporter.setblocking(False)
        provide(reporter)
        yield


@app.queue("fresh").handler("note", on=Fresh, at_least_once=True)
async def note(event: Fresh, reporter: socket.socket) -> None:
    """Say that the run has begun."""
    reporter.send(event.event_id.bytes)
