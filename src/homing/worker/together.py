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


_COMPANY_SECONDS = 0.02
"""How long a few runs wait for others to go with, at most."""

_GROUPS_AT_ONCE = 6
"""Groups of a lane that are settled and finished at once: while some wait for a server, one is worked on here, and the next one gathers.

Worker, Redis and PostgreSQL are three, and replies come in bunches: with so many no server is without work for long."""


@dataclass(slots=True)
class _Crowd:
    """The runs of a lane whose handlers have returned: those that wait for company, until `timer` at the latest; how many groups are under way."""

    waiting: list[Plain] = field(default_factory=list)
    under_way: int = 0
    timer: asyncio.TimerHandle | None = None


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
        self._followers: list[Plain] | None = None

    def receive(self, owner: Owner, plain: list[Plain]) -> None:
        """Begin runs of jobs that were claimed together; those that came with the end of a group are carried on by that group's task."""
        if self._followers is not None:
            self._followers += plain
        else:
            held = [each.slot for each in plain]
            self._spawn(self._carry(owner, held, begun=plain), held)

    async def _carry(
        self, owner: Owner, held: list[Slot], *, begun: list[Plain] | None = None, group: list[Plain] | None = None
    ) -> None:
        """Carry jobs from claim to end, and those that were claimed with their ends, as far as every next step is ready.

        So a group does not stand aside at each step while all others take theirs, and the servers are never all asked at once. `held`: the slots
        of the jobs that are in the hands of this task, now.
        """
        while begun or group:
            if begun:
                held[:] = [each.slot for each in begun]
                await self._let_in(begun)
                held.clear()
                await asyncio.sleep(0)  # what does not wait returns in this turn
                group = self._go_on(owner)
            if group:
                held[:] = [each.slot for each in group]
                begun, group = await self._finish_group(owner, group), None
                held.clear()
            else:
                begun = None

    async def _let_in(self, plain: Sequence[Plain]) -> None:
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

    def _go_on(self, own: Owner | None = None) -> list[Plain] | None:
        """Let what has returned in this turn go on together, each lane's for itself; a group of `own` is left to the caller."""
        returned, self._returned = self._returned, []
        counts: dict[Owner, int] = defaultdict(int)
        for each in returned:
            each.slot.has_returned = True
            counts[each.slot.owner] += 1
            self._crowds[each.slot.owner].waiting.append(each)
        group = None if own is None else self._depart(own)
        for owner, count in counts.items():
            self._send_off(owner)
            owner.returned(count, waiting=bool(self._crowds[owner].waiting))
        return group

    def _send_off(self, owner: Owner, *, is_late: bool = False) -> None:
        while group := self._depart(owner, is_late=is_late):
            held = [each.slot for each in group]
            self._spawn(self._carry(owner, held, group=group), held)

    def _send_off_late(self, owner: Owner) -> None:
        self._crowds[owner].timer = None
        self._send_off(owner, is_late=True)

    def _depart(self, owner: Owner, *, is_late: bool = False) -> list[Plain] | None:
        """The next group of a lane, if one may go now. A small one waits for company while another is under way, and not for long: that one may
        have to wait for a row that somebody holds."""  # noqa: D205, D209 - one thought
        crowd = self._crowds[owner]
        if not crowd.waiting or crowd.under_way >= _GROUPS_AT_ONCE:
            return None
        is_small = 2 * len(crowd.waiting) < owner.together
        if is_small and crowd.under_way and not is_late:
            if crowd.timer is None:
                crowd.timer = asyncio.get_running_loop().call_later(_COMPANY_SECONDS, self._send_off_late, owner)
            return None
        group, crowd.waiting = crowd.waiting[: owner.together], crowd.waiting[owner.together :]
        crowd.under_way += 1
        return group

    async def _finish_group(self, owner: Owner, group: Sequence[Plain]) -> list[Plain]:
        """Settle and finish a group; what was claimed in its place."""
        try:
            return await self._finish(owner, group)
        finally:
            self._crowds[owner].under_way -= 1
            self._send_off(owner)

    async def _finish(self, owner: Owner, group: Sequence[Plain]) -> list[Plain]:
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
        return self._leave_for_others(owner, done, wanted) if done else []

    def _leave_for_others(self, owner: Owner, done: Sequence[Plain], wanted: Wanted | None) -> list[Plain]:
        """Give back what is done; what was claimed in its place, which begins even where giving back the others fails."""
        followers: list[Plain] = []
        self._followers = followers
        try:
            self._leave(done, wanted)
        except BaseException:
            self._followers = None
            if followers:
                self.receive(owner, followers)
            raise
        finally:
            self._followers = None
        return followers
