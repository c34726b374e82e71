"""An application whose lifespan tells what happens in which order, and may never get through: lines go into the file that `TOLD` names."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

from homing import Event, Homing, Provider
from tests.waiting import until

GATE_SECONDS = 60


class Asked(Event, topic="lifespan.asked", unrouted=True):
    """Handled while the file `gate` is not there."""

    gate: Path


class Resource:
    """What the handler uses, as long as it is open."""

    def __init__(self) -> None:
        self.is_open = True


def tell(word: str) -> None:
    with Path(os.environ["TOLD"]).open("a", encoding="ascii") as file:
        file.write(f"{word}\n")


app = Homing("lifespan")


@app.lifespan
async def resources(provide: Provider) -> AsyncIterator[None]:
    tell("opening")
    try:
        if "NEVER_OPENS" in os.environ:
            await asyncio.Event().wait()
        resource = Resource()
        provide(resource)
        yield
        resource.is_open = False
    finally:
        tell("closed")


@app.queue("work").handler("do", on=Asked, at_least_once=True)
async def do(event: Asked, resource: Resource) -> None:
    tell("begun")
    await until(event.gate.exists, GATE_SECONDS, "the gate")
    tell("done with it open" if resource.is_open else "done with it closed")
