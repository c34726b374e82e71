"""Routes are rows: what this code consumes is written down when a process starts, so that relays of any version route to it."""

import logging
from collections.abc import Iterable

from homing.app.consumers import Route
from homing.app.declared import Queue
from homing.events.codec import dump_json
from homing.ledger.ledger import Ledger
from homing.ledger.statements import QUEUES
from homing.queue.port import Engine
from homing.queue.settings import limits_of, read_settings, settings_fields
from homing.schema.statement import load

log = logging.getLogger("homing.relay")

REGISTER = load("homing.relay", "register")
CONFIGURE = load("homing.relay", "configure")


async def register(ledger: Ledger, routes: Iterable[Route], queues: Iterable[Queue] = ()) -> None:
    """Insert the routes and queues that are missing, and bring the options of known ones up to date; nothing is removed.

    A route that a person retired stays retired, and that is said. `queues` are those whose limits this code declares.
    """
    configured = list(queues)
    await ledger.fetch(
        CONFIGURE,
        queues=[queue.name for queue in configured],
        settings=[dump_json(settings_fields(queue.settings)) for queue in configured],
    )
    declared = list(routes)
    rows = await ledger.fetch(
        REGISTER,
        topics=[route.topic for route in declared],
        consumers=[route.consumer for route in declared],
        queues=[route.queue for route in declared],
        job_names=[route.job_name for route in declared],
        modes=[route.mode for route in declared],
        options=[dump_json(route.policy.job_options()) for route in declared],
        aliases=[dump_json(list(route.aliases)) for route in declared],
    )
    for row in rows:
        if row["retired_at"] is not None:
            log.warning("consumer %s was retired at %s: it gets no new events", row["consumer"], row["retired_at"])


async def push_settings(ledger: Ledger, engine: Engine, queues: Iterable[Queue]) -> None:
    """Make the engine hold the limits that the ledger has for these queues, before a process claims from them.

    Not the pause: whether the engine's data is new to the ledger is the watch's to tell, and else the engine knows better.
    """
    served = {queue.name for queue in queues}
    for row in await ledger.fetch(QUEUES):
        if row["queue"] in served:
            await engine.push_settings(row["queue"], limits_of(read_settings(row["queue"], row["settings"])))
