"""Many askers, one statement: questions that arrive while one is on its way leave together as the next."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextvars import Context
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Coalescer(Generic[K, V]):
    """Collects calls of `ask` and answers them by `answer_all`, one call at a time, at most `most` questions each.

    An error of `answer_all` is the error of every question it was asked. Group commit, without a timer: alone, a question leaves at
    once; in a crowd, the crowd leaves together. What is answered together is no asker's own: it is done in `context`, by default an
    empty one, so that no line and no span of it passes for the first asker's.
    """

    def __init__(
        self,
        answer_all: Callable[[Sequence[K]], Awaitable[Sequence[V]]],
        *,
        most: int = 500,
        context: Callable[[], Context] = Context,
    ) -> None:
        self._answer_all = answer_all
        self._most = most
        self._context = context
        self._waiting: list[tuple[K, asyncio.Future[V]]] = []
        self._task: asyncio.Task[None] | None = None

    async def ask(self, question: K) -> V:
        """The answer to one question."""
        answer: asyncio.Future[V] = asyncio.get_running_loop().create_future()
        self._waiting.append((question, answer))
        if self._task is None:
            self._task = asyncio.create_task(self._work(), context=self._context())
        return await answer

    async def _work(self) -> None:
        try:
            while self._waiting:
                batch, self._waiting = self._waiting[: self._most], self._waiting[self._most :]
                await self._answer(batch)
        finally:
            self._task = None

    async def _answer(self, batch: list[tuple[K, asyncio.Future[V]]]) -> None:
        try:
            answers = await self._answer_all([question for question, _ in batch])
            if len(answers) != len(batch):
                raise ValueError(f"{len(batch)} questions got {len(answers)} answers")  # noqa: TRY301 - the askers' error too
        except Exception as error:  # noqa: BLE001 - handed on to everyone who asked
            for _, future in batch:
                if not future.done():
                    future.set_exception(error)
            return
        except BaseException:
            for _, future in batch:
                future.cancel()
            raise
        for (_, future), answer in zip(batch, answers, strict=True):
            if not future.done():
                future.set_result(answer)
