"""PostgreSQL forgets: it comes back as a copy of its data from before the end of the story, while Redis knows the end."""

from pathlib import Path

from bullmq import Job, Queue  # type: ignore[import-untyped]  # it ships no types

from homing.config.settings import Settings
from homing.embedded import EmbeddedPostgres
from tests.crash.history import (
    QUEUE,
    AskedLeast,
    AskedOnce,
    Story,
    app_of,
    came_to_rest,
    effects,
    finished_marks,
    job_id,
    short,
    take_over,
)
from tests.system import running
from tests.waiting import until


async def test_what_postgres_forgot_happens_again(
    mortal_postgres: EmbeddedPostgres, mortal_database_url: str, redis_url: str, redis_prefix: str, tmp_path: Path
) -> None:
    """Effects that were forgotten with their settle happen again, a forgotten death is written down again, a forgotten event never runs."""
    settings = Settings(database_url=mortal_database_url, redis_url=redis_url, prefix=redis_prefix)
    story = Story()
    once, least, dying = AskedOnce(), AskedLeast(), AskedLeast(fate="dead")
    async with running(app_of(story, settings), short(settings), worker=False) as system:
        await system.sql.execute("CREATE TABLE effects (event_id uuid)")
        await system.record(once, least, dying)

        async def all_wait() -> bool:
            return (await system.engine.counts(QUEUE)).waiting == 3

        await until(all_wait, what="the jobs wait")
    mortal_postgres.stop()
    mortal_postgres.save_data(tmp_path / "saved")
    mortal_postgres.start()
    unborn, unborn_later = AskedOnce(), AskedOnce(fate="later")
    async with running(app_of(story, settings), short(settings)) as system:
        await system.record(unborn, unborn_later)
        await came_to_rest(system, unsettled=1)
        assert await effects(system) == {once.event_id: 1, unborn.event_id: 1}
        assert len(await system.letters()) == 1
    ended = finished_marks(redis_url, redis_prefix)
    assert len(ended) == 4  # all but the one that waits
    mortal_postgres.stop(immediate=True)
    mortal_postgres.restore_data(tmp_path / "saved")
    mortal_postgres.start()
    runs = story.runs.copy()
    async with running(app_of(story, settings), short(settings)) as system:
        assert await effects(system) == {}
        assert await system.unsettled() == 3
        await system.sql.execute("UPDATE homing.deliveries SET check_at = now()")  # what half a minute does
        await take_over(system)
        await promote(settings, str(job_id(unborn_later)))
        await system.settled()
        await came_to_rest(system, unsettled=0)
        assert await effects(system) == {once.event_id: 1}
        (letter,) = await system.letters()
        assert (letter["event_id"], letter["kind"]) == (dying.event_id, "failed")
        assert "this one dies" in letter["error"]
        ran_again = story.runs - runs
        assert ran_again == {once.event_id: 1, least.event_id: 1}
        (trace,) = await system.engine.inspect(QUEUE, [job_id(unborn_later)])
        assert trace.failed_reason is not None
        assert trace.failed_reason.startswith("unknown delivery")


async def promote(settings: Settings, job: str) -> None:
    """What the promote button of a queue tool does with a delayed job."""
    queue = Queue(QUEUE, {"connection": settings.redis_dsn, "prefix": settings.prefix})
    await (await Job.fromId(queue, job)).promote()
    await queue.close()
