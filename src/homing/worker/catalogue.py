"""Which handler a job is for: by the consumer that the ledger names, by a former name of it, or by queue and job name."""

from collections.abc import Iterable

from homing.app.handlers import Handler
from homing.events.envelope import Envelope
from homing.ids import DeliveryKey
from homing.queue.parked import ParkedKind


class Catalogue:
    """The handlers of a worker."""

    def __init__(self, handlers: Iterable[Handler]) -> None:
        self._by_consumer: dict[str, Handler] = {}
        self._by_job: dict[tuple[str, str], Handler] = {}
        for handler in handlers:
            self._by_job[handler.queue, handler.job_name] = handler
            for name in (handler.consumer, *handler.aliases):
                self._by_consumer[name] = handler

    def find(self, queue: str, job_name: str, envelope: Envelope | None) -> Handler | None:
        """The handler, or `None` when this worker knows none.

        A delivery's consumer counts first, so that a renamed or moved handler still gets its old deliveries.
        """
        if envelope is not None and envelope.delivery is not None:
            handler = self._by_consumer.get(envelope.delivery.consumer)
            if handler is not None:
                return handler
        return self._by_job.get((queue, job_name))

    def find_by_id(self, job_id: str) -> Handler | None:
        """The handler of a delivery's job, by the job's id alone; `None` for jobs of other producers, whose ids say nothing."""
        key = DeliveryKey.parse(job_id)
        return None if key is None else self._by_consumer.get(key.consumer)

    def knows(self, queue: str, kind: ParkedKind) -> bool:
        """Whether this worker can run parked jobs of a kind."""
        handler = self._by_consumer.get(kind.consumer) or self._by_job.get((queue, kind.job))
        return handler is not None and kind.version <= handler.event.event_type.version
