"""Node beside us: one process for the session, and what a test makes in it. Without Node, everything here is left out, and says so."""

import os
from collections.abc import AsyncIterator, Iterator

import pytest

from homing.queue.redis import RedisEngine
from tests.interop.node import Node, NodeProcess
from tests.interop.npm import NodeIsMissingError, installed


@pytest.fixture(scope="session")
def node_process() -> Iterator[NodeProcess]:
    """The process; `INTEROP_BULLMQ=newest` asks for the newest BullMQ 6 instead of the pinned one."""
    try:
        packages = installed(newest=os.environ.get("INTEROP_BULLMQ") == "newest")
    except NodeIsMissingError as error:
        pytest.skip(f"NODE IS LEFT OUT: {error}")
    process = NodeProcess(packages.folder)
    yield process
    process.stop()


@pytest.fixture
async def node(node_process: NodeProcess, redis_url: str, redis_prefix: str) -> AsyncIterator[Node]:
    """BullMQ under this test's prefix."""
    made = Node(node_process, redis_url, redis_prefix)
    yield made
    await made.close()


@pytest.fixture
async def engine(redis_url: str, redis_prefix: str) -> AsyncIterator[RedisEngine]:
    """Our engine under the same prefix."""
    engine = RedisEngine(redis_url, prefix=redis_prefix)
    await engine.open()
    yield engine
    await engine.close()
