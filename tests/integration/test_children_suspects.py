"""Suspects run alone in a child of their own: as the worker would run them, and convicted by nothing but that child's death."""

import json
import logging
import os
import sys
from pathlib import Path

import pytest
from redis.asyncio import Redis

from homing import Event
from homing.config.settings import Settings
from homing.ids import DeliveryKey
from homing.ledger.gate import SUSPECT_STALLS
from homing.worker.children import alone
from homing.worker.children.alone import place_of
from tests.integration.suspects_app import TABLE, Suspected, SuspectedCpu, SuspectedLeast, SuspectedParent, app
from tests.system import System, quick, running
from tests.waiting import until

STALLED = ("stc", str(SUSPECT_STALLS))
EVENTS = "SELECT event_id FROM homing.deliveries"
GIVEN_UP = ("defa", "job stalled more than allowable limit")


async def suspect(settings: Settings, event: Event, sign: tuple[str, str] = STALLED) -> None:
    """Record an event, and make its waiting job look as if its claims had ended without an end."""
    async with running(app, settings, worker=False) as system:
        await system.sql.execute(TABLE)
        await system.record(event)
        async with Redis.from_url(settings.redis_dsn) as client:

            async def jobs() -> list[bytes]:
                keys = [key async for key in client.scan_iter(match=f"{settings.prefix}:*:*{event.event_id}*")]
                return [key for key in keys if await client.type(key) == b"hash"]

            (key,) = await until(jobs, what="the job is dispatched")
            await client.hset(key, *sign)


async def result_of(system: System) -> object:
    """The result that the only delivery kept."""
    await system.settled(60)
    text = await system.sql.fetchval("SELECT result FROM homing.deliveries")
    return text if text is None else json.loads(text)


async def letter_of(system: System) -> tuple[str, str]:
    """Kind and class of the only dead letter."""
    await system.settled(60)
    (letter,) = await system.letters()
    return letter["kind"], json.loads(letter["error"])["class"]


async def test_transaction_handler_runs_alone_and_commits_once(
    settings: Settings, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """A suspect with a transaction settles and commits in a child, in its trace and log context; the worker finishes the job."""
    settings = quick(settings)
    await suspect(settings, Suspected())
    async with running(app, settings) as system:
        pid = await result_of(system)
        (effect,) = await system.sql.fetch("SELECT * FROM effects")
        assert effect["pid"] == pid != os.getpid()
        assert effect["trace_id"] is not None
        assert await system.deliveries() == {"suspects.once": "done"}
    (line,) = [json.loads(line) for line in capfd.readouterr().err.splitlines() if '"acting"' in line]
    assert (line["consumer"], line["attempt"], line["trace_id"]) == ("suspects.once", 1, effect["trace_id"])
    assert "suspects.once is a suspect: 3 claims of it ended without an end; it runs alone" in caplog.text


async def test_what_the_engine_gave_up_is_a_suspect_too(settings: Settings, caplog: pytest.LogCaptureFixture) -> None:
    """BullMQ's own verdict on a stalled job is a suspicion: the job runs alone, and its success counts."""
    settings = quick(settings)
    await suspect(settings, SuspectedCpu(), GIVEN_UP)
    async with running(app, settings) as system:
        assert await result_of(system) != os.getpid()
        assert await system.deliveries() == {"suspects.cpu": "done"}
    assert "the engine gave it up (job stalled more than allowable limit); it runs alone" in caplog.text


async def test_a_suspect_waits_for_its_children_too(settings: Settings) -> None:
    """Its run ends in the child where it waits, the worker lets it wait, and when it is called again it is alone again."""
    settings = quick(settings)
    await suspect(settings, SuspectedParent())
    async with running(app, settings) as system:
        await system.settled(60)
        ran, child = json.loads(
            await system.sql.fetchval("SELECT result::text FROM homing.deliveries WHERE consumer = 'patient.parent'")
        )
        assert os.getpid() not in (ran, child)
        assert ran != child


async def test_resources_of_a_suspect_are_made_in_its_child(settings: Settings) -> None:
    """The child opens the app's lifespan for itself: nothing of the worker is in it, but what it tells reaches the job."""
    settings = quick(settings)
    await suspect(settings, SuspectedLeast())
    async with running(app, settings) as system:
        result = await result_of(system)
        assert isinstance(result, list)
        ran, made = result
        assert ran == made != os.getpid()
        (job_id,) = [DeliveryKey(row["event_id"], "patient.least", 1).job_id for row in await system.sql.fetch(EVENTS)]
        assert (await system.engine.read_lines("patient", job_id)).lines == ("alone",)


@pytest.mark.parametrize("event", [Suspected(mood="die"), SuspectedLeast(mood="exit"), SuspectedCpu(mood="die")])
async def test_a_suspect_whose_child_dies_is_convicted(settings: Settings, event: Event) -> None:
    """Killed or merely gone, with code 0 even: the first death convicts, and nothing of the transaction stays."""
    settings = quick(settings)
    await suspect(settings, event)
    async with running(app, settings) as system:
        assert await letter_of(system) == ("poison", "ChildDied")
        assert await system.sql.fetchval("SELECT count(*) FROM effects") == 0
        assert set((await system.deliveries()).values()) == {"dead"}


@pytest.mark.parametrize("event", [Suspected(mood="die late"), SuspectedLeast(mood="die late")])
async def test_a_death_after_the_settle_is_no_death_of_the_job(settings: Settings, event: Event) -> None:
    """The child that dies between its commit and its answer has done its work: the job ends as done, once."""
    settings = quick(settings)
    await suspect(settings, event)
    async with running(app, settings) as system:
        await system.settled(60)
        worker = system.worker
        assert worker is not None
        await until(lambda: worker.running == 0, 30, "the job is finished")
        assert set((await system.deliveries()).values()) == {"done"}
        assert await system.letters() == []
        assert await system.sql.fetchval("SELECT count(*) FROM effects") == (type(event) is Suspected)


async def test_a_child_that_dies_before_it_begins_convicts_nobody(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A module that ends the process that imports it is not the job's fault."""
    (tmp_path / "deadly_app.py").write_text("import os\nos._exit(9)\n", encoding="ascii")
    monkeypatch.syspath_prepend(tmp_path)
    settings = quick(settings)
    await suspect(settings, Suspected())
    async with running(app, settings.model_copy(update={"app": "deadly_app:app"})) as system:
        await until(
            lambda: "can run the suspect: the child process that ran it ended with exit code 9" in caplog.text, 30
        )
        assert await system.deliveries() == {"suspects.once": None}
        assert await system.letters() == []


@pytest.mark.parametrize("event", [Suspected(mood="fail"), SuspectedCpu(mood="fail")])
async def test_a_suspect_that_fails_is_judged_as_ever(settings: Settings, event: Event) -> None:
    """An error in the child is the handler's error."""
    settings = quick(settings)
    await suspect(settings, event)
    async with running(app, settings) as system:
        assert await letter_of(system) == ("failed", "PermanentError")


@pytest.mark.parametrize("mood", ["wait", "block"])
async def test_a_suspect_that_takes_too_long_is_not_convicted(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, mood: str
) -> None:
    """A timeout, even of a child that listens to nothing and must be killed, is a failed attempt and no conviction."""
    monkeypatch.setattr(alone, "SETTLING_SECONDS", 1.0)
    settings = quick(settings)
    await suspect(settings, Suspected(mood=mood))
    async with running(app, settings) as system:
        assert await letter_of(system) == ("failed", "AttemptTimeout")
        assert (await system.letters())[0]["attempts_made"] == 2


async def test_a_suspect_is_given_back_by_a_worker_that_stops(settings: Settings, tmp_path: Path) -> None:
    """A worker that stops kills the child, and the suspect is neither convicted nor counted."""
    note = tmp_path / "runs"
    settings = quick(settings)
    await suspect(settings, SuspectedLeast(mood="wait", note=note))
    async with running(app, settings) as system:
        await until(note.exists, 30, "the suspect runs")
        assert system.worker is not None
        assert await system.worker.stop(0)
        assert await system.deliveries() == {"patient.least": None}
        assert await system.letters() == []


async def test_an_app_that_cannot_start_in_a_child_convicts_nobody(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """When the child cannot begin, the job waits, spends no attempt, and the reason is told."""
    settings = quick(settings)
    await suspect(settings, Suspected())
    caplog.set_level(logging.INFO)
    lost = settings.model_copy(update={"app": "tests.integration.not_there:app"})
    async with running(app, lost) as system:
        await until(lambda: "no child process can run the suspect: ModuleNotFoundError" in caplog.text, 30)
        assert await system.deliveries() == {"suspects.once": None}
        assert await system.letters() == []


async def test_the_place_of_an_app(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the command line said counts; otherwise the module that holds the app; an app in no module has no place."""
    assert place_of(app, settings.model_copy(update={"app": "shop.jobs:app"})) == "shop.jobs:app"
    place = place_of(app, settings)
    assert place is not None
    module, _, attribute = place.partition(":")
    assert getattr(sys.modules[module], attribute) is app
    assert place_of(type(app)("local"), settings) is None


async def test_settings_arrive_in_the_child_unchanged(settings: Settings) -> None:
    """What is sent is what the worker runs with, whatever its environment says."""
    changed = quick(settings, worker_queues={"suspects": 2, "patient": None}, log_level="DEBUG")
    assert (
        Settings.model_validate(json.loads(json.dumps(changed.model_dump(mode="json", exclude_unset=True)))) == changed
    )
