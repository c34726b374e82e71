"""BullMQ in a process of Node's, driven from tests: one for a session, everything a test made is closed at its end."""

import asyncio
import contextlib
import itertools
import json
import subprocess
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

DRIVER = Path(__file__).with_name("node") / "driver.cjs"
CALL_SECONDS = 60.0
STOP_SECONDS = 20.0
TOLD = ["completed", "failed", "stalled", "error", "drained", "progress"]
"""The events of a worker that are told, unless a test asks for others."""


class NodeError(Exception):
    """What BullMQ threw, or what became of its process."""


def code(text: str) -> dict[str, str]:
    """An expression that Node evaluates; `bullmq` is in its scope, and `await gate(name)`."""
    return {"$code": text}


def failure(message: str, *, stack: str | None = None, unrecoverable: bool = False) -> dict[str, Any]:
    """An error, to be handed to a method."""
    return {"$error": {"message": message, "stack": stack, "unrecoverable": unrecoverable}}


class NodeProcess:
    """The driver, and who waits for its answers. It ends with our end of its pipe, also when the tests are killed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._process = subprocess.Popen(
            ["node", str(DRIVER), str(folder)],  # noqa: S607 - the one on the PATH is meant
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._input, self._output = self._process.stdin, self._process.stdout
        self._ids = itertools.count()
        self._waiting: dict[int, Future[Any]] = {}
        self._told: dict[str, list[tuple[str, list[Any]]]] = {}
        self._lock = threading.Lock()
        self._reader = threading.Thread(target=self._read, name="node", daemon=True)
        self._reader.start()

    def ask(self, op: str, **terms: Any) -> Future[Any]:
        """Send one line; the future has the answer, or a `NodeError`."""
        future: Future[Any] = Future()
        with self._lock:
            number = next(self._ids)
            self._waiting[number] = future
            self._input.write(json.dumps({"id": number, "op": op, **terms}) + "\n")
            self._input.flush()
        return future

    async def call(self, op: str, **terms: Any) -> Any:
        """The same, waited for."""
        async with asyncio.timeout(CALL_SECONDS):
            return await asyncio.wrap_future(self.ask(op, **terms))

    def told(self, name: str) -> Sequence[tuple[str, list[Any]]]:
        """The events of an object so far, in order."""
        return self._told.get(name, [])

    def kill(self) -> None:
        """SIGKILL: nothing is given back, nothing is closed."""
        self._process.kill()
        self._ended()

    def stop(self) -> None:
        """Let it end, and see that it does."""
        self._input.close()
        try:
            self._process.wait(STOP_SECONDS)
        finally:
            self.kill()

    def _ended(self) -> None:
        self._process.wait()
        self._reader.join()
        self._output.close()
        with contextlib.suppress(BrokenPipeError):  # what it was not told any more
            self._input.close()

    def _read(self) -> None:
        for line in self._output:
            self._take(json.loads(line))
        with self._lock:
            left = list(self._waiting.values())
        for future in left:
            if not future.done():
                future.set_exception(NodeError("the process has ended"))

    def _take(self, said: dict[str, Any]) -> None:
        if "event" in said:
            self._told.setdefault(said["of"], []).append((said["event"], said["args"]))
            return
        with self._lock:
            future = self._waiting.pop(said["id"])
        if "error" in said:
            future.set_exception(NodeError(said["error"]))
        elif not future.cancelled():
            future.set_result(said["value"])


@dataclass(frozen=True, slots=True)
class Made:
    """An object in the other process: a queue, a worker, a job. `fields`: what a job looked like when it came."""

    process: NodeProcess
    name: str
    fields: dict[str, Any] = field(default_factory=dict)

    async def call(self, method: str, *args: Any) -> Any:
        """Call a method; jobs come back as `Made`, everything else as JSON has it."""
        args_told = [_tell(arg) for arg in args]
        return read_back(self.process, await self.process.call("call", on=self.name, method=method, args=args_told))

    async def close(self) -> None:
        """Close it now; closing again at the end of the test is left out."""
        await self.process.call("close", names=[self.name])

    def told(self, event: str) -> list[list[Any]]:
        """What each event of this name told, in order."""
        return [args for name, args in self.process.told(self.name) if name == event]

    @property
    def as_argument(self) -> dict[str, str]:
        """How it is named in arguments."""
        return {"$ref": self.name}


class Node:
    """What a test makes in the other process, under its own prefix; `close` closes it all."""

    def __init__(self, process: NodeProcess, redis_url: str, prefix: str) -> None:
        self.process = process
        self.prefix = prefix
        self._url = redis_url
        self._numbers = itertools.count()
        self._redis: Made | None = None
        self._made: list[Made] = []

    async def queue(self, name: str, /, **options: Any) -> Made:
        """A `Queue`."""
        return await self.make("Queue", name, await self._options(options))

    async def worker(self, queue: str, processor: str | None, /, **options: Any) -> Made:
        """A `Worker` that runs this code; `None` makes one whose jobs are claimed by hand."""
        by_hand = {"autorun": False} if processor is None else {}
        handler = None if processor is None else code(processor)
        return await self.make("Worker", queue, handler, await self._options(by_hand | options), events=TOLD)

    async def flows(self, **options: Any) -> Made:
        """A `FlowProducer`."""
        return await self.make("FlowProducer", await self._options(options))

    async def queue_events(self, queue: str) -> Made:
        """A `QueueEvents`, which follows what happens from now on."""
        return await self.make("QueueEvents", queue, await self._options({}), events=["completed", "failed", "error"])

    async def old_queue(self, name: str) -> Made:
        """A `Queue` of BullMQ 5."""
        return await self.make("bullmq5.Queue", name, {"connection": {"url": self._url}, "prefix": self.prefix})

    async def bull_board(self, *queues: Made) -> str:
        """Bull Board for these queues; its address."""
        board = await self.make("BullBoard", *queues)
        return f"http://127.0.0.1:{await board.call('port')}"

    async def open(self, gate: str) -> None:
        """Let processors that wait for this gate go on."""
        await self.process.call("open", gate=gate)

    async def clock(self, at_ms: int | None) -> None:
        """Make `Date.now()` say this, or the truth again."""
        await self.process.call("clock", at=at_ms)

    async def run(self, function: str, *args: Any) -> Any:
        """Call a function of a test's own with these arguments."""
        args_told = [_tell(arg) for arg in args]
        return read_back(self.process, await self.process.call("run", code=function, args=args_told))

    async def make(self, kind: str, *args: Any, events: Sequence[str] = ()) -> Made:
        """Any object of BullMQ's."""
        made = Made(self.process, f"{self.prefix} {kind} {next(self._numbers)}")
        args_told = [_tell(arg) for arg in args]
        await self.process.call("make", **{"as": made.name}, kind=kind, args=args_told, events=list(events))
        self._made.append(made)
        return made

    async def close(self) -> None:
        """Close what was made, the last first; workers do not wait for what they run."""
        for made in reversed(self._made):
            await made.close()

    async def _options(self, options: dict[str, Any]) -> dict[str, Any]:
        if self._redis is None:
            self._redis = await self.make("Redis", self._url, {"maxRetriesPerRequest": None})
        return {"connection": self._redis.as_argument, "prefix": self.prefix, **options}


def _tell(value: Any) -> Any:
    return value.as_argument if isinstance(value, Made) else value


def read_back(process: NodeProcess, value: Any) -> Any:
    """An answer, with the jobs in it as `Made`."""
    if isinstance(value, list):
        return [read_back(process, inner) for inner in value]
    if not isinstance(value, dict):
        return value
    if "$job" in value:
        return Made(process, value["$ref"], value["$job"])
    return {name: read_back(process, inner) for name, inner in value.items()}
