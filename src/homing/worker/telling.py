"""What a run tells while it works is written down beside it: in its order, before the job ends, and never in its way."""

import asyncio
import logging
import threading
from collections import deque

from homing.app.handlers import Told
from homing.errors import HomingError
from homing.queue.job import Lease
from homing.queue.notes import KEPT_LINES, Noting

log = logging.getLogger("homing.worker")


class Notes:
    """The notes of one run. Any thread may tell; the event loop that made this writes, and forgets what the engine does not take.

    It takes nothing of a run whose job another one has got.
    Of many values of progress the last is written, of many lines as many as the engine keeps: telling costs a run no memory.
    """

    __slots__ = ("_closed", "_engine", "_guard", "_lease", "_lines", "_loop", "_progress", "_writing")

    def __init__(self, engine: Noting, lease: Lease) -> None:
        self._engine = engine
        self._lease = lease
        self._loop = asyncio.get_running_loop()
        self._guard = threading.Lock()
        self._lines: deque[str] | None = None
        self._progress: str | None = None
        self._writing: asyncio.Future[None] | None = None
        self._closed = False

    def tell(self, kind: Told, text: str) -> None:
        """Take a value of progress (JSON text) or a line; what comes after the end of the job is of no use to anybody."""
        with self._guard:
            if self._closed:
                return
            if kind == "progress":
                self._progress = text
            elif self._lines is None:
                self._lines = deque([text], maxlen=KEPT_LINES)
            else:
                self._lines.append(text)
        self._loop.call_soon_threadsafe(self._begin)

    async def close(self) -> None:
        """Write what was told, and take no more: the job ends now."""
        with self._guard:
            self._closed = True
        self._begin()
        if self._writing is not None:
            await self._writing

    def _begin(self) -> None:
        if (self._writing is None or self._writing.done()) and self._has_more:
            self._writing = asyncio.ensure_future(self._write())

    @property
    def _has_more(self) -> bool:
        return self._progress is not None or bool(self._lines)

    async def _write(self) -> None:
        try:
            while self._has_more:
                await self._write_page()
        except HomingError as error:
            log.warning("what job %s told is not shown: %s", self._lease.job_id, error)

    async def _write_page(self) -> None:
        with self._guard:
            progress, self._progress = self._progress, None
            lines, self._lines = self._lines, None
        queue, job_id, holder = self._lease.queue, self._lease.job_id, self._lease.token
        if lines:
            await self._engine.note_lines(queue, job_id, list(lines), holder=holder)
        if progress is not None:
            await self._engine.note_progress(queue, job_id, progress, holder=holder)
