"""`homing jobs` and `homing queues` as people and programs use them, on real servers."""

import asyncio
import io
import json
import logging
import socket
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from homing import Event, Homing
from homing.cli.exits import Exit
from homing.cli.main import main
from homing.config.settings import Settings
from homing.durations import seconds
from homing.ids import DeliveryKey, JobId, new_token
from homing.queue.browse import QueueTerms
from homing.queue.job import ClaimedJob, KeepRule, NewJob
from homing.queue.port import ClaimRequest, QueueSettings
from homing.queue.redis import RedisEngine
from tests.system import System, quick, running
from tests.waiting import until

QUEUE = "work"
HOSTILE = "bad \x1b[31mred\x1b[0m [link=x]\nnext line"
Run = Callable[..., Awaitable[tuple[int, str, str]]]

app = Homing("jobs-cli")


class Asked(Event, topic="jobs.asked", unrouted=True):
    number: int = 0


@app.queue(QUEUE).handler("do", on=Asked, at_least_once=True)
async def do(event: Asked) -> None: ...


@pytest.fixture
def run(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Iterator[Run]:
    """Runs `homing …` on this test's servers, with this text on stdin: exit code, stdout and stderr. No app is needed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DATABASE_URL", settings.asyncpg_dsn)
    monkeypatch.setenv("REDIS_URL", settings.redis_dsn)
    monkeypatch.setenv("HOMING_PREFIX", str(settings.prefix))

    async def command(*arguments: str, given: str = "") -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "stdin", io.StringIO(given))
        code = await asyncio.to_thread(main, arguments)
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield command
    root.handlers[:] = handlers
    root.setLevel(level)


async def read(run: Run, *arguments: str) -> Any:
    """What a command that must succeed prints for programs."""
    code, said, error = await run("--json", *arguments)
    assert (code, error) == (Exit.DONE, "")
    return json.loads(said)


async def add(system: System, *ids: str, **terms: object) -> None:
    """Jobs that no relay made."""
    jobs = [NewJob(id=JobId(job_id), name="do", data="{}", timestamp_ms=0, **terms) for job_id in ids]  # type: ignore[arg-type]
    await system.engine.add(QUEUE, jobs)


async def claim(system: System) -> ClaimedJob:
    job = await system.engine.claim(QUEUE, ClaimRequest(new_token(), 30.0))
    assert isinstance(job, ClaimedJob)
    return job


async def fail(system: System, reason: str = "no") -> None:
    job = await claim(system)
    await system.engine.fail(job, reason, stack="at x", mark=None, keep=KeepRule(), claim_next=None)


async def actions(system: System) -> list[tuple[str, int]]:
    rows = await system.sql.fetch("SELECT action, affected FROM homing.operator_actions ORDER BY id")
    return [(row["action"], row["affected"]) for row in rows]


async def test_jobs_are_listed_page_by_page_and_shown(settings: Settings, run: Run) -> None:
    """Every state in turn, filtered by queue, state and name; one job in full; a wrong queue or place is told."""
    async with running(app, quick(settings), worker=False, relay=False) as system:
        await add(system, "bad", "w1", "w2", "w3")
        await add(system, "later", delay_seconds=600)
        await fail(system, "Timeout: slow")
        first = await read(run, "jobs", "list", "--limit", "3")
        assert [job["id"] for job in first["jobs"]] == ["w1", "w2", "w3"]
        second = await read(run, "jobs", "list", "--limit", "3", "--after", first["after"])
        assert [(job["id"], job["state"], job["reason"]) for job in second["jobs"]] == [
            ("later", "delayed", ""),
            ("bad", "failed", "Timeout: slow"),
        ]
        assert second["after"] is None
        assert len((await read(run, "jobs", "list", "--queue", QUEUE, "--state", "waiting"))["jobs"]) == 3
        assert (await read(run, "jobs", "list", "--name", "other"))["jobs"] == []
        named = await read(run, "jobs", "list", "--name", "do", "--limit", "2")
        rest = await read(run, "jobs", "list", "--name", "do", "--after", named["after"])
        assert [job["id"] for job in named["jobs"] + rest["jobs"]] == ["w1", "w2", "w3", "later", "bad"]
        shown = await read(run, "jobs", "show", "bad")
        assert (shown["queue"], shown["state"], shown["stacks"], shown["fields"]["data"]) == (
            QUEUE,
            "failed",
            ["at x"],
            "{}",
        )
        (explained,) = await read(run, "jobs", "explain", "later")
        assert (explained["job"], explained["reasons"][0]["reason"]) == ("later", "delayed")
        assert (await run("jobs", "show", "nothing"))[0] == Exit.NO_SUCH_ID
        assert (await run("jobs", "explain", "nothing"))[0] == Exit.NO_SUCH_ID
        assert (await run("jobs", "list", "--queue", "wrk"))[0] == Exit.NO_SUCH_ID
        assert (await run("jobs", "list", "--after", "w3"))[0] == Exit.REFUSED
        assert (await run("jobs", "list", "--state", "ready"))[0] == Exit.USAGE


async def test_jobs_get_another_turn_by_id_and_by_choice(settings: Settings, run: Run) -> None:
    """Retried, promoted and removed, counted before, asked about where it matters, and each deed is kept with its number."""
    async with running(app, quick(settings), worker=False, relay=False) as system:
        await add(system, "f1", "f2", "f3")
        for _ in range(3):
            await fail(system)
        await add(system, "l1", "l2", delay_seconds=600)
        assert (await read(run, "jobs", "retry", "f1"))[0]["answer"] == "retried"
        code, said, _ = await run("jobs", "retry", "-", given="f1 l1 nothing")
        assert code == Exit.NO_SUCH_ID
        assert "f1, l1: left as it is: it is not among the failed jobs" in said
        assert await read(run, "jobs", "retry", "--queue", QUEUE, "--dry-run") == {"would": 2, "more": False}
        assert (await run("jobs", "retry", "--queue", QUEUE))[0] == Exit.REFUSED
        assert len(await read(run, "jobs", "retry", "--queue", QUEUE, "--name", "do", "--yes", "--why", "mended")) == 2
        assert len(await read(run, "jobs", "promote", "--name", "do", "--yes")) == 2
        assert (await system.engine.counts(QUEUE)).waiting == 5
        assert (await run("jobs", "remove", "l1"))[0] == Exit.REFUSED
        assert (await run("jobs", "remove", "--queue", QUEUE, "--yes"))[0] == Exit.USAGE
        assert (await run("jobs", "retry"))[0] == Exit.USAGE
        assert (await read(run, "jobs", "remove", "--yes", "l1"))[0]["answer"] == "removed"
        assert await actions(system) == [("retry", 1), ("retry", 2), ("retry", 2), ("promote", 2), ("remove", 1)]


async def test_an_id_of_two_queues_is_nobodys(settings: Settings, run: Run) -> None:
    """BullMQ counts ids per queue: nothing is shown or touched before the queue is named."""
    both = Homing("jobs-cli")
    for name in (QUEUE, "mail"):
        both.queue(name, global_concurrency=9)
    async with running(both, quick(settings), worker=False, relay=False) as system:
        with Redis.from_url(settings.redis_dsn) as client:
            for name in (QUEUE, "mail"):
                client.rpush(f"{settings.prefix}:{name}:wait", "17")
                client.hset(f"{settings.prefix}:{name}:17", "name", "do")
        for verb in (("show",), ("explain",), ("remove", "--yes")):
            code, _, error = await run("jobs", *verb, "17")
            assert (code, "queues mail and work both have a job '17': say --queue" in error) == (Exit.REFUSED, True)
        assert (await read(run, "jobs", "remove", "--yes", "--queue", "mail", "17"))[0]["queue"] == "mail"
        assert [(await system.engine.counts(name)).waiting for name in ("mail", QUEUE)] == [0, 1]


async def test_a_removed_job_of_an_open_delivery_is_told_to_come_back(settings: Settings, run: Run) -> None:
    """It says so, and the look makes it again; a drain says so before it asks, and its jobs come back too."""
    async with running(app, quick(settings, look=seconds(60)), worker=False) as system:
        event = Asked()
        job_id = DeliveryKey(event.event_id, "work.do", 1).job_id
        await system.record(event)

        async def waits() -> bool:
            return (await system.engine.counts(QUEUE)).waiting == 1

        await until(waits, what="the job waits")
        code, said, _ = await run("jobs", "remove", "--yes", job_id)
        assert (code, "comes back: its delivery is open" in said) == (Exit.DONE, True)
        for again in range(2):
            await system.sql.execute("UPDATE homing.deliveries SET check_at = now()")
            assert system.relay is not None
            await system.relay.sweep.tick()
            await until(waits, what="the job is back")
            if not again:
                code, _, asked = await run("queues", "drain", QUEUE)
                assert (code, "come back" in asked) == (Exit.REFUSED, True)
                assert (await read(run, "queues", "drain", QUEUE, "--yes"))["removed"] == 1


async def test_queues_are_paused_bounded_and_resumed(settings: Settings, run: Run) -> None:
    """In the engine at once and in the ledger for its next incarnation; the aliases do the same; what was done is kept."""
    async with running(app, quick(settings), worker=False, relay=False) as system:
        assert isinstance(system.engine, RedisEngine)
        await add(system, "a")
        assert await read(run, "pause", QUEUE) == {"paused": [QUEUE]}
        await read(run, "queues", "limit", QUEUE, "--jobs", "4", "--per", "2s", "--concurrency", "3")
        (line,) = await read(run, "queues", "list")
        assert (line["waiting"], line["workers"], line["paused"], line["concurrency"], line["limit"]) == (
            1,
            0,
            True,
            3,
            {"jobs": 4, "seconds": 2.0},
        )
        _, table, _ = await run("queues", "list")
        assert "paused, limit 4 in 2s, concurrency 3, no worker" in table
        kept = json.loads(await system.sql.fetchval("SELECT settings FROM homing.queues WHERE queue = $1", QUEUE))
        assert {name: kept[name] for name in ("paused", "max", "duration", "concurrency")} == {
            "paused": True,
            "max": 4,
            "duration": 2000,
            "concurrency": 3,
        }
        await read(run, "queues", "limit", QUEUE, "--no-limit")
        await read(run, "resume", QUEUE)
        terms = await system.engine.terms(QUEUE)
        assert (terms.paused, terms.limit, terms.concurrency) == (False, None, 3)
        assert [action for action, _ in await actions(system)] == ["pause", "limit", "limit", "resume"]
        assert (await run("pause", "wrk"))[0] == Exit.NO_SUCH_ID
        assert (await run("queues", "limit", QUEUE))[0] == Exit.USAGE
        assert (await run("queues", "limit", QUEUE, "--jobs", "1", "--no-limit"))[0] == Exit.USAGE


async def test_what_a_person_set_survives_a_loss_without_anybody_watching(settings: Settings, run: Run) -> None:
    """Paused and bounded while no relay lives, then Redis forgets everything: whoever starts next finds it in the ledger."""
    async with running(app, quick(settings), worker=False, relay=False):
        await read(run, "queues", "pause", QUEUE)
        await read(run, "queues", "limit", QUEUE, "--concurrency", "2")
    with Redis.from_url(settings.redis_dsn) as client:
        client.delete(f"{settings.prefix}:{QUEUE}:meta")
    async with running(app, quick(settings)) as system:
        assert isinstance(system.engine, RedisEngine)
        await system.record(Asked())

        async def waits() -> bool:
            return (await system.engine.counts(QUEUE)).waiting == 1

        await until(waits, what="the job waits")
        assert await system.engine.terms(QUEUE) == QueueTerms(paused=True, concurrency=2)


async def test_cleaning_and_obliterating_ask_twice_where_it_hurts(settings: Settings, run: Run) -> None:
    """Old finished jobs go; a queue with running jobs, or without its name said again, stays; afterwards it is empty and paused."""
    async with running(app, quick(settings), worker=False, relay=False) as system:
        assert isinstance(system.engine, RedisEngine)
        await add(system, "f1", "runs", "waits")
        await fail(system)
        await claim(system)
        cleaning = ("queues", "clean", QUEUE, "--state", "failed", "--older-than")
        code, _, error = await run(*cleaning, "0s")
        assert (code, "say --yes" in error) == (Exit.REFUSED, True)
        assert (await read(run, *cleaning, "1d", "--yes"))["removed"] == 0
        assert (await read(run, *cleaning, "0s", "--yes"))["removed"] == 1
        assert (await run(*cleaning, "old", "--yes"))[0] == Exit.USAGE
        removing = ("queues", "obliterate", QUEUE, "--yes")
        assert (await run(*removing, "--confirm", QUEUE))[0] == Exit.REFUSED
        assert (await run(*removing, "--force"))[0] == Exit.REFUSED
        assert (await run(*removing, "--force", "--confirm", "mail"))[0] == Exit.REFUSED
        assert (await system.engine.counts(QUEUE)).waiting == 1
        assert (await read(run, *removing, "--force", "--confirm", QUEUE))["removed"] == 2
        assert (await system.engine.counts(QUEUE)).waiting == 0
        assert (await system.engine.terms(QUEUE)).paused
        assert (await actions(system))[-1] == ("obliterate", 2)


async def test_an_obliterated_queue_gets_its_deliveries_back_and_stays_paused(settings: Settings, run: Run) -> None:
    """Its data has a new identity, so that the ledger makes every open delivery's job again; none runs before somebody resumes it."""
    async with running(app, quick(settings)) as system:
        assert isinstance(system.engine, RedisEngine)
        await system.engine.push_settings(QUEUE, QueueSettings(paused=True))
        await system.record(Asked(), Asked())

        async def wait() -> bool:
            return (await system.engine.counts(QUEUE)).waiting == 2

        await until(wait, what="the jobs wait")
        code, said, _ = await run("queues", "obliterate", QUEUE, "--yes", "--confirm", QUEUE)
        assert (code, said.startswith("2 jobs of work removed")) == (Exit.DONE, True)
        await until(wait, what="the jobs are back")
        assert (await system.engine.terms(QUEUE)).paused
        assert await system.unsettled() == 2
        assert (await run("resume", QUEUE))[0] == Exit.DONE
        await system.settled()


async def test_nothing_that_strangers_wrote_breaks_the_terminal(settings: Settings, run: Run) -> None:
    """Names, reasons, data and logs come without what a terminal obeys, one job a line, and a huge text is cut with a note."""
    async with running(app, quick(settings), worker=False, relay=False) as system:
        await add(system, "evil")
        base = f"{settings.prefix}:{QUEUE}:"
        with Redis.from_url(settings.redis_dsn) as client:
            client.hset(
                base + "evil", mapping={"name": HOSTILE, "data": "\x1b[2J" + "x" * 1_000_000, "failedReason": HOSTILE}
            )
            client.rpush(base + "evil:logs", HOSTILE)
            client.lpush(base + "wait", "\x1b]0;owned\x07")
        for arguments in (("list",), ("show", "evil"), ("explain", "evil")):
            code, said, _ = await run("jobs", *arguments)
            assert code == Exit.DONE
            assert "\x1b" not in said
            assert "\x07" not in said
            assert len(said) < 20_000
        _, listed, _ = await run("jobs", "list")
        assert len(listed.splitlines()) == 3
        for no_job in ("\udcff", "evil:logs", "meta", "wait", "\x00", ":"):
            assert (await run("jobs", "show", no_job))[0] == Exit.NO_SUCH_ID
            assert (await run("jobs", "explain", no_job))[0] == Exit.NO_SUCH_ID
            assert (await run("jobs", "remove", "--yes", no_job))[0] == Exit.NO_SUCH_ID
        assert (await run("jobs", "promote", "evil", "--why", "\udcff\x1b[2J"))[0] == Exit.REFUSED


@pytest.mark.parametrize("away", ["REDIS_URL", "DATABASE_URL"])
async def test_a_server_that_is_away_is_one_line(
    settings: Settings, run: Run, monkeypatch: pytest.MonkeyPatch, away: str
) -> None:
    """Each verb ends with exit code 4 and one line that names the server."""
    async with running(app, quick(settings), worker=False, relay=False):
        pass
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        scheme = "redis" if away == "REDIS_URL" else "postgresql"
        monkeypatch.setenv(away, f"{scheme}://127.0.0.1:{closed.getsockname()[1]}/1")
        for arguments in (("jobs", "list"), ("queues", "list"), ("queues", "drain", QUEUE, "--yes"), ("pause", QUEUE)):
            code, said, error = await run(*arguments)
            assert (code, said, error.count("\n")) == (Exit.SERVER, "", 1), error
            assert "127.0.0.1" in error


async def test_a_limit_by_hand_holds_until_the_code_says_something_new(settings: Settings, run: Run) -> None:
    """A worker that starts with the same code pushes what the person set, and another number in the code takes over."""

    def declaring(jobs: int) -> Homing:
        changed = Homing("jobs-cli")
        changed.queue(QUEUE, global_concurrency=jobs)
        return changed

    async with running(declaring(5), quick(settings), worker=False, relay=False):
        await read(run, "queues", "limit", QUEUE, "--concurrency", "2")
    for declared, expected in ((5, 2), (7, 7)):
        async with running(declaring(declared), quick(settings), worker=False, relay=False) as system:
            assert isinstance(system.engine, RedisEngine)
            assert (await system.engine.terms(QUEUE)).concurrency == expected
