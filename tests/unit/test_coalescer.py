"""Many askers, one statement."""

import asyncio
from collections.abc import Sequence

import pytest

from homing.worker.coalescer import Coalescer


class Server:
    """Answers batches, when it is let, and remembers them."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.asked = asyncio.Event()
        self.gate = asyncio.Event()
        self.gate.set()
        self.errors: dict[int, BaseException] = {}
        """By the number of the batch, from 1."""
        self.busy = False

    async def answer(self, questions: Sequence[int]) -> list[int]:
        assert not self.busy, "two statements at once"
        self.busy = True
        self.batches.append(list(questions))
        self.asked.set()
        try:
            await self.gate.wait()
            if len(self.batches) in self.errors:
                raise self.errors[len(self.batches)]
            return [question * 10 for question in questions]
        finally:
            self.busy = False


async def blocked(server: Server, coalescer: Coalescer[int, int]) -> asyncio.Task[int]:
    """One question that is on its way and waits for the gate."""
    server.gate.clear()
    server.asked.clear()
    first = asyncio.create_task(coalescer.ask(0))
    async with asyncio.timeout(60):
        await server.asked.wait()
    return first


async def ask_all(coalescer: Coalescer[int, int], numbers: Sequence[int]) -> list[asyncio.Task[int]]:
    """Questions that all wait."""
    tasks = [asyncio.create_task(coalescer.ask(number)) for number in numbers]
    await asyncio.sleep(0)
    return tasks


async def test_a_question_alone_leaves_at_once() -> None:
    """Without a crowd there is no wait and no timer."""
    server = Server()
    assert await Coalescer(server.answer).ask(4) == 40
    assert server.batches == [[4]]


async def test_questions_during_a_statement_leave_together_in_order() -> None:
    """The crowd that gathered is the next batch, and each asker gets the answer to its own question."""
    server = Server()
    coalescer = Coalescer(server.answer)
    first = await blocked(server, coalescer)
    tasks = await ask_all(coalescer, [3, 1, 2])
    assert server.batches == [[0]]
    server.gate.set()
    assert await asyncio.gather(first, *tasks) == [0, 30, 10, 20]
    assert server.batches == [[0], [3, 1, 2]]


async def test_no_batch_is_larger_than_it_may_be() -> None:
    """A large crowd leaves in pages, none of them lost."""
    server = Server()
    coalescer = Coalescer(server.answer, most=3)
    first = await blocked(server, coalescer)
    tasks = await ask_all(coalescer, range(1, 9))
    server.gate.set()
    assert await asyncio.gather(first, *tasks) == [number * 10 for number in range(9)]
    assert server.batches == [[0], [1, 2, 3], [4, 5, 6], [7, 8]]


async def test_an_error_is_everybodys_and_the_next_batch_is_answered() -> None:
    """All askers of a failed statement learn of it; those before and after them are not touched."""
    server = Server()
    server.errors[2] = OSError("away")
    coalescer = Coalescer(server.answer, most=2)
    first = await blocked(server, coalescer)
    tasks = await ask_all(coalescer, [1, 2, 3])
    server.gate.set()
    assert await first == 0
    answers = await asyncio.gather(*tasks, return_exceptions=True)
    assert [str(answer) for answer in answers] == ["away", "away", "30"]
    assert await coalescer.ask(5) == 50


async def test_too_few_answers_are_an_error_for_everybody() -> None:
    """A statement that loses a row must not leave its asker waiting for ever."""
    answers: list[list[int]] = [[1], [7]]

    async def answer(questions: Sequence[int]) -> list[int]:
        await asyncio.sleep(0)
        return answers.pop(0)

    coalescer = Coalescer(answer)
    async with asyncio.timeout(60):
        found = await asyncio.gather(coalescer.ask(1), coalescer.ask(2), return_exceptions=True)
        assert [str(error) for error in found] == ["2 questions got 1 answers"] * 2
        assert await coalescer.ask(3) == 7


async def test_an_asker_that_gives_up_hurts_nobody() -> None:
    """A cancelled question is answered to nobody; its neighbours get theirs."""
    server = Server()
    coalescer = Coalescer(server.answer)
    first = await blocked(server, coalescer)
    one, other = await ask_all(coalescer, [1, 2])
    one.cancel()
    first.cancel()
    server.gate.set()
    assert await other == 20
    assert await coalescer.ask(3) == 30
    assert one.cancelled()
    assert first.cancelled()


async def test_a_cancelled_statement_leaves_nobody_waiting() -> None:
    """When the statement itself is cancelled its askers are too, and later ones are served."""
    server = Server()
    coalescer = Coalescer(server.answer)
    first = await blocked(server, coalescer)
    server.errors[1] = asyncio.CancelledError()
    server.gate.set()
    async with asyncio.timeout(60):
        with pytest.raises(asyncio.CancelledError):
            await first
        assert await coalescer.ask(3) == 30


async def test_no_question_is_lost_in_a_crowd() -> None:
    """A thousand askers at different moments get a thousand answers, in far fewer statements."""
    batches: list[int] = []

    async def answer(questions: Sequence[int]) -> list[int]:
        batches.append(len(questions))
        for _ in range(len(batches) % 4):
            await asyncio.sleep(0)
        return [question * 10 for question in questions]

    coalescer = Coalescer(answer, most=50)

    async def asker(number: int) -> int:
        for _ in range(number % 7):
            await asyncio.sleep(0)
        return await coalescer.ask(number)

    async with asyncio.timeout(60):
        answers = await asyncio.gather(*(asker(number) for number in range(1000)))
    assert answers == [number * 10 for number in range(1000)]
    assert sum(batches) == 1000
    assert len(batches) < 100


async def test_as_many_calls_are_on_their_way_as_may_be() -> None:
    """With two flights a second call leaves while the first one is answered; what comes then waits, and leaves together."""
    calls: list[list[int]] = []
    gate = asyncio.Event()

    async def answer(questions: Sequence[int]) -> list[int]:
        calls.append(list(questions))
        await gate.wait()
        return [question * 10 for question in questions]

    coalescer: Coalescer[int, int] = Coalescer(answer, flights=2)
    tasks = []
    for number in range(4):
        tasks.append(asyncio.create_task(coalescer.ask(number)))
        for _ in range(3):
            await asyncio.sleep(0)
    assert calls == [[0], [1]]
    gate.set()
    assert [await task for task in tasks] == [0, 10, 20, 30]
    assert calls == [[0], [1], [2, 3]]
    assert await coalescer.ask(5) == 50
