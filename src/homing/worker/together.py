"""Plain runs, from claim to end in groups: gated by one statement, settled by one, finished by one call that claims the next group.

Plain is what needs nothing else: an `async def` handler without a transaction. In between each run is on its own, in a task of its own, and takes
as long as it takes; those that return in the same turn of the loop go on together. Nothing waits for a group to fill: a lone run is a group of one.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Coroutine, Sequence
from contextvars import Context
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from homing.errors import ServerUnavailable
from homing.ledger.gate import DONE_MARK, SUSPECT_STALLS
from homing.ledger.gate import Run as MayRun
from homing.queue.job import Lease
from homing.queue.outcome import Completed
from homing.queue.port import Completion, Finished
from homing.worker.calling import Caller
from homing.worker.context import Surroundings
from homing.worker.endings import Ending, Raised, Returned, Stopped, Unsure
from homing.worker.finishing import Finisher
from homing.worker.gating import Gatekeeper
from homing.worker.run import Run
from homing.worker.settling import Settler
from homing.worker.slot import Owner, Plain, Slot, Wanted

Conclude = Callable[[Slot, Run, Ending | Completed], None]
"""What is done with a run that did not simply return, or whose engine did not answer: it is judged and ended alone."""

Spawn = Callable[[Coroutine[Any, Any, None], Sequence[Slot]], None]
"""How work for some slots is begun: what fails of it unexpectedly gives them free."""

Leave = Callable[[Sequence[Plain], Wanted | None], None]
"""What is done with runs that are finished: counted, reported, and handed back to their lane, with what was asked for in their place."""


def is_plain(run: Run) -> bool:
    """Whether a run needs nothing but its gate, its handler and its settle."""
    handler = run.handler
    return (
        handler.kind == "async"
        and handler.guarantee == "at least once"
        and handler.batch is None
        and handler.policy.read_key is None
        and not handler.takes("flow")
        and run.span is None
        and run.job.deferred_failure is None
        and run.job.stalls < SUSPECT_STALLS
    )


_GROUPS_AT_ONCE = 2
"""Groups of a lane that are settled and finished at once: while one waits for a server, the other is worked on here, and the next one gathers."""


@dataclass(slots=True)
class _Crowd:
    """The runs of a lane whose handlers have returned: those that wait for company, and how many groups are under way."""

    waiting: list[Plain] = field(default_factory=list)
    under_way: int = 0


class Together:
    """Performs plain runs. `runs`: the table of those that can be told to end; `conclude` or `leave` is called once for each."""

    def __init__(
        self,
        *,
        gate: Gatekeeper,
        settler: Settler,
        caller: Caller,
        finisher: Finisher,
        runs: dict[Lease, Run],
        surroundings: Surroundings,
        spawn: Spawn,
        conclude: Conclude,
        leave: Leave,
    ) -> None:
        self._gate = gate
        self._settler = settler
        self._caller = caller
        self._finisher = finisher
        self._runs = runs
        self._surroundings = surroundings
        self._spawn = spawn
        self._conclude = conclude
        self._leave = leave
        self._returned: list[Plain] = []
        self._crowds: dict[Owner, _Crowd] = defaultdict(_Crowd)

    async def begin(self, plain: Sequence[Plain]) -> None:
        """Ask the gate for all of them, and start those that may run."""
        for each in plain:
            self._runs[each.slot.job.lease] = each.run
            each.slot.fields = self._surroundings.fields_of(each.run)
        try:
            decisions = await self._gate.ask_all([each.run.case for each in plain])
        except ServerUnavailable as error:
            for each in plain:
                self._end(each, Unsure(str(error)))
            return
        for each, decision in zip(plain, decisions, strict=True):
            if not isinstance(decision, MayRun):
                self._end(each, Stopped(decision))
            elif each.run.cause is not None:
                self._end(each, Raised(asyncio.CancelledError(), each.run.cause))
            else:
                self._start(each)

    def _start(self, plain: Plain) -> None:
        run = plain.run
        try:
            self._caller.begin(run, self._surroundings.of(run, plain.slot.fields), partial(self._end, plain))
        except Exception as error:  # noqa: BLE001 - what the handler asks for is not there: the run's failure
            self._end(plain, Raised(error))

    def _end(self, plain: Plain, ending: Ending) -> None:
        if not isinstance(ending, Returned):
            self._runs.pop(plain.slot.job.lease, None)
            self._conclude(plain.slot, plain.run, ending)
            return
        plain.result = ending.result
        if not self._returned:
            asyncio.get_running_loop().call_soon(self._go_on, context=Context())
        self._returned.append(plain)

    def _go_on(self) -> None:
        """Let what has returned in this turn go on together, each lane's for itself."""
        returned, self._returned = self._returned, []
        by_owner: dict[Owner, int] = defaultdict(int)
        for each in returned:
            each.slot.has_returned = True
            by_owner[each.slot.owner] += 1
            self._crowds[each.slot.owner].waiting.append(each)
        for owner, count in by_owner.items():
            self._depart(owner)
            owner.returned(count, waiting=bool(self._crowds[owner].waiting))

    def _depart(self, owner: Owner) -> None:
        crowd = self._crowds[owner]
        while crowd.waiting and crowd.under_way < _GROUPS_AT_ONCE:
            group, crowd.waiting = crowd.waiting[: owner.together], crowd.waiting[owner.together :]
            crowd.under_way += 1
            self._spawn(self._finish_group(owner, group), [each.slot for each in group])

    async def _finish_group(self, owner: Owner, group: Sequence[Plain]) -> None:
        try:
            await self._finish(owner, group)
        finally:
            self._crowds[owner].under_way -= 1
            self._depart(owner)

    async def _finish(self, owner: Owner, group: Sequence[Plain]) -> None:
        await self._settler.settle_surely(group)
        completions: list[Completion] = []
        for each in group:
            run = each.run
            self._runs.pop(run.job.lease, None)
            run.let_go()
            if each.slot.notes is not None:
                await each.slot.notes.close()
            completions.append(Completion(run.job, each.result, DONE_MARK, run.handler.policy.keep_completed))
        wanted = owner.ask(len(group))
        request, most = (None, 0) if wanted is None else (wanted.request, wanted.most)
        try:
            answers = await self._finisher.complete_group(owner.queue, completions, request, most)
        finally:
            owner.heard(wanted)
        done: list[Plain] = []
        for each, answer in zip(group, answers, strict=True):
            if isinstance(answer, Finished):
                each.finished = answer
                done.append(each)
            else:
                self._conclude(each.slot, each.run, Completed(each.result))
        if done:
            self._leave(done, wanted)
