"""Waiting for jobs: one sleeper for each engine."""

import asyncio

import pytest

from tests.contract.conftest import QUEUE, Subject


async def test_only_one_wait_at_a_time(subject: Subject) -> None:
    """A second wait beside a sleeping one is a mistake and says so."""
    waiting = asyncio.create_task(subject.engine.wait([QUEUE], 10.0))
    await asyncio.sleep(0)
    with pytest.raises(RuntimeError, match="already waiting"):
        await subject.engine.wait([QUEUE], 1.0)
    await subject.engine.interrupt()
    await waiting
