"""Renewing leases from a thread of its own, so that a handler that blocks the event loop does not lose its job."""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable

from homing.errors import HomingError, ServerUnavailable
from homing.queue.job import Lease
from homing.queue.port import Extender, Held

log = logging.getLogger("homing.worker")


class LeaseKeeper:
    """Extends every held lease each beat. `on_taken` is called in the event loop for a lease that another run holds.

    A lease that is merely missing (the engine lost its data, or we were silent too long and nobody has started the job yet) is counted
    and the run goes on: its row in the ledger decides.
    """

    def __init__(
        self,
        extender: Extender,
        *,
        lease_seconds: float,
        beat_seconds: float,
        on_taken: Callable[[Lease], None],
    ) -> None:
        self._extender = extender
        self._lease_seconds = lease_seconds
        self._beat_seconds = beat_seconds
        self._on_taken = on_taken
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._held: set[Lease] = set()
        self._missing: set[Lease] = set()
        self._questions: list[tuple[Lease, asyncio.Future[Held]]] = []
        self._woken = threading.Event()
        self._stopping = False
        self._failing = False
        self._thread = threading.Thread(target=self._work, name="homing-leases", daemon=True)

    def start(self) -> None:
        """Begin to beat."""
        self._thread.start()

    def hold(self, leases: Iterable[Lease]) -> None:
        """Renew these leases from now on."""
        with self._lock:
            self._held.update(leases)

    def drop(self, leases: Collection[Lease]) -> None:
        """Renew these leases no more: their runs have ended. Other leases of the same jobs are not touched."""
        with self._lock:
            self._held.difference_update(leases)
            if self._missing:
                self._missing.difference_update(leases)

    async def confirm(self, lease: Lease) -> Held:
        """Renew one lease now and say whether it is ours; errors of the engine are raised, and `ServerUnavailable` after `stop`."""
        if self._stopping:
            raise ServerUnavailable("leases are not renewed any more: the worker has stopped")
        answer: asyncio.Future[Held] = self._loop.create_future()
        with self._lock:
            self._questions.append((lease, answer))
        self._woken.set()
        return await answer

    async def stop(self) -> None:
        """End the thread after its last beat and close its connection; a second time, nothing."""
        if self._stopping:
            return
        self._stopping = True
        self._woken.set()
        await asyncio.to_thread(self._join)

    def _join(self) -> None:
        self._thread.join()
        self._extender.close()

    def _work(self) -> None:
        next_beat = time.monotonic() + self._beat_seconds
        while not self._stopping:
            self._woken.wait(max(0.0, next_beat - time.monotonic()))
            self._woken.clear()
            self._answer(self._take_questions())
            if time.monotonic() >= next_beat:
                next_beat = time.monotonic() + self._beat_seconds
                self._beat()
        self._answer(self._take_questions())

    def _take_questions(self) -> list[tuple[Lease, asyncio.Future[Held]]]:
        with self._lock:
            questions, self._questions = self._questions, []
        return questions

    def _beat(self) -> None:
        with self._lock:
            held = list(self._held)
        if not held:
            return
        try:
            answers = self._extender.extend(held, self._lease_seconds)
        except HomingError as error:
            if not self._failing:
                log.warning("%d leases were not renewed, trying each beat: %s", len(held), error)
            self._failing = True
            return
        except Exception:  # a mistake of ours must not end the thread: every lease of this worker hangs on it
            log.exception("%d leases were not renewed", len(held))
            return
        if self._failing:
            log.info("leases are renewed again")
        self._failing = False
        for lease, answer in zip(held, answers, strict=True):
            self._note(lease, answer)

    def _note(self, lease: Lease, answer: Held) -> None:
        with self._lock:
            if lease not in self._held:
                return
            if answer is Held.TAKEN:
                self._held.discard(lease)
            first_missing = answer is Held.MISSING and lease not in self._missing
            if first_missing:
                self._missing.add(lease)
        if answer is Held.TAKEN:
            self._loop.call_soon_threadsafe(self._on_taken, lease)
        elif first_missing:
            log.warning("job %s: its lease is missing in the engine; the run goes on", lease.job_id)

    def _answer(self, questions: Iterable[tuple[Lease, asyncio.Future[Held]]]) -> None:
        for lease, future in questions:
            try:
                (held,) = self._extender.extend([lease], self._lease_seconds)
            except Exception as error:  # noqa: BLE001 - handed to the run that asked
                self._loop.call_soon_threadsafe(_fail, future, error)
            else:
                self._loop.call_soon_threadsafe(_answer, future, held)


def _answer(future: asyncio.Future[Held], held: Held) -> None:
    if not future.done():
        future.set_result(held)


def _fail(future: asyncio.Future[Held], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
