"""Many askers, one statement: questions that arrive while one is on its way leave together as the next."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextvars import Context
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Coalescer(Generic[K, V]):
    """Collects calls of `ask` and answers them by `answer_all`, `flights` calls at a time, at most `most` questions each.

    An error of `answer_all` is the error of every question it was asked. Group commit, without a timer: alone, a question leaves at
    once; in a crowd, the crowd leaves together. What is answered together is no asker's own: it is done in `context`, by default an
    empty one, so that no line and no span of it passes for the first asker's.
    """

    def __init__(
        self,
        answer_all: Callable[[Sequence[K]], Awaitable[Sequence[V]]],
        *,
        most: int = 500,
        flights: int = 1,
        context: Callable[[], Context] = Context,
    ) -> None:
        self._answer_all = answer_all
        self._most = most
        self._context = context
        self._waiting: list[_Bundle[K, V]] = []
        self._flights = flights
        self._flying: dict[object, asyncio.Task[Any] | None] = {}

    async def ask(self, question: K) -> V:
        """The answer to one question."""
        (answer,) = await self.ask_all([question])
        return answer

    async def ask_all(self, questions: Sequence[K]) -> Sequence[V]:
        """The answers to several questions, which are not taken apart, however many they are.

        Several that find nobody before them leave by themselves, in the caller's own task: they are a crowd already.
        """
        if len(questions) > 1 and not self._waiting and len(self._flying) < self._flights:
            return await self._answer_here(questions)
        answers: asyncio.Future[Sequence[V]] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Bundle(questions, answers))
        self._take_off()
        return await answers

    async def _answer_here(self, questions: Sequence[K]) -> Sequence[V]:
        flight = object()
        self._flying[flight] = asyncio.current_task()
        try:
            return await self._answers_to(questions)
        finally:
            del self._flying[flight]
            if self._waiting:
                self._take_off()

    def _take_off(self) -> None:
        if len(self._flying) < self._flights:
            flight = object()
            self._flying[flight] = asyncio.create_task(self._work(flight), context=self._context())

    async def _work(self, flight: object) -> None:
        try:
            while self._waiting:
                await self._answer(self._take())
        finally:
            del self._flying[flight]

    def _take(self) -> list["_Bundle[K, V]"]:
        """The bundles that leave next: the first one, and those behind it as far as there is room."""
        taken, room = 1, self._most - len(self._waiting[0].questions)
        while taken < len(self._waiting) and len(self._waiting[taken].questions) <= room:
            room -= len(self._waiting[taken].questions)
            taken += 1
        bundles, self._waiting = self._waiting[:taken], self._waiting[taken:]
        return bundles

    async def _answer(self, bundles: "list[_Bundle[K, V]]") -> None:
        questions = [question for bundle in bundles for question in bundle.questions]
        try:
            answers = await self._answers_to(questions)
        except Exception as error:  # noqa: BLE001 - handed on to everyone who asked
            for bundle in bundles:
                if not bundle.answers.done():
                    bundle.answers.set_exception(error)
            return
        except BaseException:
            for bundle in bundles:
                bundle.answers.cancel()
            raise
        first = 0
        for bundle in bundles:
            last = first + len(bundle.questions)
            if not bundle.answers.done():
                bundle.answers.set_result(answers[first:last])
            first = last

    async def _answers_to(self, questions: Sequence[K]) -> Sequence[V]:
        answers = await self._answer_all(questions)
        if len(answers) != len(questions):
            raise ValueError(f"{len(questions)} questions got {len(answers)} answers")
        return answers


@dataclass(frozen=True, slots=True)
class _Bundle(Generic[K, V]):
    """Questions of one asker, and where their answers go."""

    questions: Sequence[K]
    answers: "asyncio.Future[Sequence[V]]"
