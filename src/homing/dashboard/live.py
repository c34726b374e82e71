"""The stream that tells open pages when there is something new to see. Pages fetch themselves again; nothing else travels here."""

from collections.abc import AsyncGenerator

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from homing.dashboard.visit import Desk

MOST_VIEWERS = 50
"""Streams at once; whoever comes later is told to ask every so often."""

POLL_SECONDS = 10
SILENCE_SECONDS = 15.0
"""How long nothing is said before a sign of life is sent, which proxies want."""


class Live:
    """Counts streams and serves them."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self.viewers = 0

    @property
    def route(self) -> Route:
        """Where pages listen."""
        return Route("/live", self.serve, methods=["GET"], name="live")

    async def serve(self, _: Request) -> Response:
        """A stream of events, or the one event that says how often to ask instead."""
        stream = self.poll() if self.viewers >= MOST_VIEWERS else self.stream()
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return StreamingResponse(stream, media_type="text/event-stream", headers=headers)

    async def poll(self) -> AsyncGenerator[str, None]:
        """What one viewer too many hears."""
        yield f"event: poll\ndata: {POLL_SECONDS}\n\n"

    async def stream(self) -> AsyncGenerator[str, None]:
        """An event for each look, until the viewer leaves or the process ends."""
        self.viewers += 1
        lookout = self._desk.lookout
        try:
            yield "retry: 2000\n\n"
            while not lookout.is_closing:
                came = await lookout.wait_next(SILENCE_SECONDS)
                yield f"event: look\ndata: {lookout.number}\n\n" if came else ": still here\n\n"
        finally:
            self.viewers -= 1
