"""Jobs that kill the process they run in, and what becomes of those that ran beside them."""

import json
import os
import signal
from pathlib import Path

import psutil
import pytest

from homing.ledger.gate import SUSPECT_STALLS
from tests.crash.children import Child, Children
from tests.crash.conftest import Scene
from tests.crash.poison_app import Bystander, Picture, Poison
from tests.waiting import until


@pytest.fixture
def poisoned(processes: Children) -> Children:
    """Processes that run the app with the poison."""
    processes.app = "tests.crash.poison_app:app"
    return processes


async def test_poison_is_convicted_and_its_neighbours_are_not(poisoned: Children, scene: Scene) -> None:
    """A job kills three workers with others beside it; then all of them run alone: it is buried as poison, they are done, once."""
    await scene.record(Bystander(), Bystander(), Poison())
    for death in range(1, SUSPECT_STALLS + 1):
        worker = poisoned.worker()
        await scene.reached("runs", 3 * death, 40)
        await scene.open("strike")
        assert await worker.ended() == -signal.SIGKILL
        await scene.sql.execute("DELETE FROM gates")
    worker = poisoned.worker()
    await scene.reached("runs", 3 * SUSPECT_STALLS + 3, 40)
    for gate in ("hold", "strike"):
        await scene.open(gate)
    await scene.settled(40)
    (letter,) = await scene.sql.fetch("SELECT kind, consumer, error FROM homing.dead_letters")
    assert (letter["kind"], letter["consumer"]) == ("poison", "orders.poison")
    assert json.loads(letter["error"])["text"] == "the child process that ran it was killed by SIGKILL"
    assert await scene.count("effects") == 2
    assert await scene.sql.fetchval("SELECT count(*) FROM homing.deliveries WHERE outcome = 'done'") == 2
    assert await scene.sql.fetchval("SELECT count(DISTINCT pid) FROM effects WHERE pid <> $1", worker.pid) == 2
    assert worker.log.count(" is a suspect: ") == 3
    worker.signal(signal.SIGTERM)
    assert await worker.ended() == 0


async def test_a_child_that_dies_costs_its_job_attempts_and_nobody_else_anything(
    poisoned: Children, scene: Scene, tmp_path: Path
) -> None:
    """A cpu handler that kills its process fails like any other, attempt by attempt; the worker and the neighbour go on."""
    worker = poisoned.worker()
    await worker.ready()
    gate = tmp_path / "gate"
    neighbour, victim = picture(tmp_path, "neighbour", gate), picture(tmp_path, "victim", tmp_path, dies=True)
    await scene.record(neighbour, victim)
    await note_of(neighbour)

    async def buried() -> bool:
        return bool(await scene.count("homing.dead_letters"))

    await until(buried, 40, "the letter")
    (letter,) = await scene.sql.fetch("SELECT kind, error, attempts_made FROM homing.dead_letters")
    assert (letter["kind"], letter["attempts_made"]) == ("failed", 3)
    assert json.loads(letter["error"])["class"] == "ChildDied"
    gate.touch()
    await scene.settled()
    assert await scene.outcomes() == {"done", "dead"}
    assert worker.code is None


async def test_children_end_with_a_worker_that_is_killed(poisoned: Children, scene: Scene, tmp_path: Path) -> None:
    """SIGKILL of the worker ends the child in the middle of its work, and another worker does it again."""
    gate = tmp_path / "gate"
    drawn = picture(tmp_path, "drawn", gate)
    first = poisoned.worker()
    await scene.record(drawn)
    pid = await note_of(drawn)
    first.kill()
    await until(lambda: not psutil.pid_exists(pid), 10, "the child is gone")
    drawn.note.unlink()
    gate.touch()
    second = poisoned.worker()
    await scene.settled()
    assert await note_of(drawn) != pid
    assert await scene.outcomes() == {"done"}
    assert second.code is None


async def test_a_stop_of_everybody_lets_children_finish(poisoned: Children, scene: Scene, tmp_path: Path) -> None:
    """SIGTERM to worker and child alike: the run is finished, the worker stops with 0, and no child is left."""
    gate = tmp_path / "gate"
    drawn = picture(tmp_path, "drawn", gate)
    worker = poisoned.worker()
    await scene.record(drawn)
    pid = await note_of(drawn)
    os.kill(pid, signal.SIGTERM)
    os.killpg(worker.pid, signal.SIGTERM)
    await worker.says("stopping")
    gate.touch()
    await scene.settled()
    assert await scene.sql.fetchval("SELECT result FROM homing.deliveries") == str(pid)
    assert await worker.ended() == 0
    assert not psutil.pid_exists(pid)


async def test_a_stop_that_cannot_wait_kills_children(poisoned: Children, scene: Scene, tmp_path: Path) -> None:
    """When the grace is over the child is killed, the job given back with its attempt, and the worker stops with 0."""
    gate = tmp_path / "gate"
    drawn = picture(tmp_path, "drawn", gate)
    worker: Child = poisoned.worker(HOMING_SHUTDOWN_GRACE="0s")
    await scene.record(drawn)
    pid = await note_of(drawn)
    worker.signal(signal.SIGTERM)
    assert await worker.ended() == 0
    assert not psutil.pid_exists(pid)
    assert await scene.outcomes() == {None}


def picture(folder: Path, name: str, gate: Path, *, dies: bool = False) -> Picture:
    """A picture with a note of its own; a gate that is a folder is open."""
    return Picture(note=folder / name, gate=gate, dies=dies)


async def note_of(drawn: Picture) -> int:
    """The process id that the handler wrote down."""

    def text() -> str:
        found = drawn.note.read_text(encoding="ascii") if drawn.note.exists() else ""
        return found if found.endswith("\n") else ""

    return int(await until(text, 40, "the picture is being drawn"))
