"""An application whose worker takes a job and never ends it: it is there to be killed."""

import asyncio

from homing import Event, Homing

app = Homing("holding")


class Held(Event, topic="interop.held", unrouted=True):
    """What is never done."""


@app.queue("mail").handler("greet", on=Held, at_least_once=True)
async def greet(event: Held) -> None:
    del event
    await asyncio.Event().wait()
