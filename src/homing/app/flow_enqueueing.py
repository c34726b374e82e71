"""Enqueueing a flow directly: `await queue.enqueue_flow(…)` for trees of jobs outside the outbox."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol, Unpack

from homing.app.consumers import Route
from homing.app.enqueueing import ClientSource, EnqueueingQueue
from homing.app.flow_plan import Above, Routes, plan
from homing.app.flows import Child
from homing.client import EnqueueOptions, Handle, make_job, read_options
from homing.config.logs import log_context
from homing.errors import EnqueueError
from homing.events.event import Event
from homing.queue.flows import FlowJob
from homing.queue.parent import JobRef
from homing.trace import Trace, current_trace

log = logging.getLogger("homing.client")


class RouteSource(ClientSource, Protocol):
    """The app's side of it: whom children can be for."""

    @property
    def routes(self) -> tuple[Route, ...]:
        """The handlers that this process has imported, and the consumers in other systems."""
        ...


class FlowingQueue(EnqueueingQueue):
    """The part of a queue that adds trees of jobs."""

    _source: RouteSource

    async def enqueue_flow(
        self,
        job: str | Callable[..., Any],
        data: Event,
        children: Sequence[Child],
        **options: Unpack[EnqueueOptions],
    ) -> Handle[Any]:
        """Add a job that runs after `children`, and all of them, in one step: all jobs of the tree are there, or none.

        Its handler learns what they came to from `flow: Flow`, by `await flow.children()`. Options are those of `enqueue`, but for `lifo` and
        `deduplicate`. The tree is as durable as Redis, and no transaction waits for it: from a web request, record an event, and
        let its handler `wait_for` the children.

        Raises `EnqueueError` for the job, `FlowError` for children that cannot be; nothing is added then. `ServerUnavailable` within two
        seconds when Redis does not take it: whether it has is not known, and adding it again, with the same event, is harmless.
        """
        terms = read_options(options)
        if terms.deduplication is not None or terms.lifo:
            raise EnqueueError("a job that waits for children has neither deduplicate nor lifo: leave them out")
        if not children:
            raise EnqueueError(f"a flow without children is a job: `enqueue` adds {data!r}")
        handler = self._handler(job, elsewhere=terms.elsewhere)
        name = job if isinstance(job, str) else "" if handler is None else handler.job_name
        policy = self._policy_of_strangers if handler is None else handler.policy
        made = make_job(name if handler is None else handler.job_name, data, terms, policy)
        self._warn_inside_request()

        def tree(now_ms: int) -> list[FlowJob]:
            trace = current_trace() or Trace(trace_id=f"flow-{made.id}")
            above = Above(ref=JobRef(self.name, made.id), stem=made.id, timestamp_ms=now_ms, trace=trace)
            root = FlowJob(queue=self.name, job=replace(made, timestamp_ms=now_ms), waits=True)
            planned = plan(Routes(self._source.routes), above, children)
            return [root, *(one for child in planned for one in child.jobs)]

        since_ms = await self._source.client.add_flow(made.id, tree)
        return Handle(queue=self.name, id=made.id, _client=lambda: self._source.client, _since_ms=since_ms)

    def _warn_inside_request(self) -> None:
        """A request has a transaction of its own as a rule, and a flow is in none."""
        if current_trace() is not None and "consumer" not in log_context.get() and "flow" not in self._warned:
            self._warned.add("flow")
            log.warning(
                "a flow is added to %s from inside a request: it stays when the request's transaction is rolled back, and is lost where Redis "
                "is away; record an event, and add the flow from its handler",
                self.name,
            )
