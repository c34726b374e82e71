"""The application that `homing doctor` is asked about."""

from homing import Event, Homing


class Noted(Event, topic="doctor.noted", unrouted=True):
    """Anything."""


app = Homing("doctor")


@app.queue("notes").handler("note", on=Noted, at_least_once=True)
async def note(event: Noted) -> None:
    """Nothing to do."""
