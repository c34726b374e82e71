"""Permits by key: asked for before a run begins, so that a job whose key is used up costs the others nothing."""

from homing.queue.outcome import HeldBack
from homing.queue.port import Engine
from homing.worker.endings import Raised
from homing.worker.run import Run


class Permits:
    """Asks the engine, which counts for all workers together."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def hold_back(self, run: Run) -> HeldBack | Raised | None:
        """Why the run must wait, or that its key cannot be read; `None` = it may begin, and its start is counted."""
        policy = run.handler.policy
        if policy.read_key is None:
            return None
        try:
            run.limit_key = policy.read_key(run.event)
        except BaseException as error:  # noqa: BLE001 - the application's own function, which fails like its handler, SystemExit too
            return Raised(error)
        if run.limit_key is None:
            return None
        wait_seconds = await self._engine.permit(
            run.handler.queue, run.job.lease.job_id, run.limit_key, policy.key_limit
        )
        if wait_seconds <= 0:
            return None
        return HeldBack(wait_seconds, f"the limit of {run.limit_key!r} is used up for {wait_seconds:.3f} s")
