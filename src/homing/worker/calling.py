"""Calling a handler so that nothing it does ends more than its own run."""

import asyncio
from collections.abc import Callable
from contextvars import Context
from typing import Any

from homing.app.handlers import Parameter
from homing.app.resources import Provider
from homing.worker.children.pool import Children
from homing.worker.deadlines import Deadlines
from homing.worker.endings import Raised, Returned
from homing.worker.handling import Handling
from homing.worker.run import Run
from homing.worker.threads import call_in_thread, contain


class Caller:
    """Calls handlers with what they ask for. `timeout_seconds`: the longest run of a handler that says nothing itself; `flow_of`: their children."""

    def __init__(
        self, provider: Provider, timeout_seconds: float, children: Children, flow_of: Callable[[Run], object]
    ) -> None:
        self._provider = provider
        self._flow_of = flow_of
        self._timeout_seconds = timeout_seconds
        self._children = children
        self._deadlines = Deadlines()

    async def call(self, run: Run, session: object = None) -> Returned | Raised:
        """Run the handler to its end; `session` is what a parameter typed `Transaction[...]` gets."""
        arguments = self.arguments(run, session)
        timeout_seconds = self.timeout_seconds(run)
        match run.handler.kind:
            case "async":
                return await call_handler(run, arguments, timeout_seconds, self._deadlines)
            case "thread":
                return await call_in_thread(run, lambda: contain(run, arguments), timeout_seconds)
            case "process":
                return await self._children.call(run, timeout_seconds)

    def begin(self, run: Run, context: Context, on_end: Callable[[Returned | Raised], None]) -> None:
        """Begin an `async def` handler in a context of its own, and wait for nothing."""
        run.hand_to(
            Handling(
                run,
                self.arguments(run, None),
                timeout_seconds=self.timeout_seconds(run),
                deadlines=self._deadlines,
                context=context,
                on_end=on_end,
            )
        )

    def arguments(self, run: Run, session: object) -> dict[str, Any]:
        """What the handler's parameters get besides the event, by name."""
        return {parameter.name: self._argument(parameter, run, session) for parameter in run.handler.parameters}

    def timeout_seconds(self, run: Run) -> float:
        """The longest this run may take."""
        own = run.handler.policy.timeout_seconds
        return self._timeout_seconds if own is None else own

    def _argument(self, parameter: Parameter, run: Run, session: object) -> object:
        match parameter.kind:
            case "transaction":
                return session
            case "job":
                return run.view
            case "flow":
                return self._flow_of(run)
            case "resource":
                return self._provider.get(parameter.type)


async def call_handler(
    run: Run, arguments: dict[str, Any], timeout_seconds: float, deadlines: Deadlines | None = None
) -> Returned | Raised:
    """Run an `async def` handler in a task of its own, and wait for its end."""
    over: asyncio.Future[Returned | Raised] = asyncio.get_running_loop().create_future()

    def end(ending: Returned | Raised) -> None:
        if not over.done():  # else nobody waits any more
            over.set_result(ending)

    run.hand_to(
        Handling(run, arguments, timeout_seconds=timeout_seconds, deadlines=deadlines or Deadlines(), on_end=end)
    )
    return await over
