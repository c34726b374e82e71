"""The page on sharing a queue with Node tells the truth: its code runs, on both sides."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from homing.config.settings import Settings
from homing.ids import JobId
from tests.interop.node import Node
from tests.system import quick, running
from tests.waiting import until

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "share-with-node.md"
CAPPED = "(capped) => [1, 2, 3, 9].map((made) => capped(made, 'capped', null, { opts: { backoff: { delay: 1000, cap: 3000 } } }))"


def blocks(language: str) -> list[str]:
    """The page's blocks in a language."""
    return re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


@pytest.fixture
def page() -> Iterator[Any]:
    """The page's Python block, as the module that a reader would save."""
    (block,) = blocks("python")
    module = ModuleType("shared_page")
    sys.modules[module.__name__] = module
    exec(compile(block, str(PAGE), "exec"), module.__dict__)  # noqa: S102 - our own page, executed on purpose
    yield module
    del sys.modules[module.__name__]


async def in_node(node: Node, url: str, block: str, last: str) -> Any:
    """Run a block as the body of a function that gives `last`; it is written for the prefix `shop` and a `REDIS_URL`."""
    body = block.replace('prefix: "shop"', f'prefix: "{node.prefix}"').replace("process.env.REDIS_URL", f'"{url}"')
    return await node.run(
        f"async () => {{ const require = (name) => (name === 'bullmq' ? bullmq : load(name));\n{body}\n{last} }}"
    )


async def test_the_code_of_the_page_runs(page: Any, node: Node, settings: Settings, redis_url: str) -> None:
    """Node's job is run by the handler, and the delivery of the outbox by Node's worker, which waits as the capped backoff has it."""
    producer, worker = blocks("js")
    async with running(page.app, quick(settings)) as system:
        added = await in_node(node, redis_url, producer, "globalThis.kept = [mail]; return job;")

        async def welcomed() -> str | None:
            (end,) = await system.engine.ends("mail", [JobId(added.fields["id"])])
            return end.result

        assert await until(welcomed, 30, "the handler has run") == '{"sent_to":"alice"}'
        event = page.ParcelPacked(parcel="p1")
        waits = f"globalThis.kept.push(printer); return ({CAPPED})(capped);"
        assert await in_node(node, redis_url, worker, waits) == [1000, 2000, 3000, 3000]
        await system.record(event)
        job_id = JobId(f"{event.event_id}.1.labels.print")

        async def printed() -> str | None:
            (end,) = await system.engine.ends("labels", [job_id])
            return end.result

        assert await until(printed, 30, "Node has printed") == f'{{"printed":"p1","event":"{event.event_id}"}}'
        await node.run("async () => { for (const one of globalThis.kept) await one.close(); }")
