"""Routes are rows: what this code consumes is written down when a process starts, so that relays of any version route to it."""

import logging
from collections.abc import Iterable

from homing.app.handlers import Handler
from homing.events.codec import dump_json
from homing.ledger.ledger import Ledger
from homing.schema.statement import load

log = logging.getLogger("homing.relay")

REGISTER = load("homing.relay", "register")


async def register(ledger: Ledger, handlers: Iterable[Handler]) -> None:
    """Insert the routes and queues that are missing, and bring the options of known ones up to date; nothing is removed.

    A route that a person retired stays retired, and that is said.
    """
    declared = list(handlers)
    rows = await ledger.fetch(
        REGISTER,
        topics=[handler.topic for handler in declared],
        consumers=[handler.consumer for handler in declared],
        queues=[handler.queue for handler in declared],
        job_names=[handler.job_name for handler in declared],
        modes=["tx" if handler.guarantee == "once" else "after" for handler in declared],
        options=[dump_json(handler.policy.job_options()) for handler in declared],
        aliases=[dump_json(list(handler.aliases)) for handler in declared],
    )
    for row in rows:
        if row["retired_at"] is not None:
            log.warning("consumer %s was retired at %s: it gets no new events", row["consumer"], row["retired_at"])
