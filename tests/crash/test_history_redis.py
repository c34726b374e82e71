"""Redis forgets: its history is taken back to any earlier moment, while the ledger knows the end of the story."""

from pathlib import Path

from bullmq import Job, Queue  # type: ignore[import-untyped]  # it ships no types

from homing.config.settings import Settings
from homing.embedded import EmbeddedValkey
from tests.crash.history import (
    QUEUE,
    AskedLeast,
    AskedOnce,
    Story,
    app_of,
    came_to_rest,
    effects,
    facts,
    finished_marks,
    job_id,
    number_from_environment,
    short,
    take_over,
)
from tests.own_servers import own_valkey
from tests.system import running
from tests.waiting import until

MOMENTS = number_from_environment("HISTORY_MOMENTS", 6)
"""How many prefixes of the history are tried, evenly spread over its bytes."""


async def test_any_moment_of_redis_may_come_back(database_url: str, tmp_path: Path) -> None:
    """Whatever prefix of its log Redis comes back with: settled deliveries stay as they are, the others go on, no effect repeats."""
    with own_valkey(tmp_path / "valkey") as server:
        settings = Settings(database_url=database_url, redis_url=server.url(), prefix="history")
        story = Story()
        once, least = AskedOnce(), AskedLeast()
        dying, retried = AskedLeast(fate="dead"), AskedOnce(fate="dead")
        later = AskedOnce(fate="later")
        async with running(app_of(story, settings), short(settings)) as system:
            await system.sql.execute("CREATE TABLE effects (event_id uuid)")
            await system.record(once, least, dying, retried, later)
            await came_to_rest(system, unsettled=1)
        await retry_in_place(settings, str(job_id(retried)))
        marked_with_the_first_death = server.log_bytes
        async with running(app_of(story, settings), short(settings)) as system:

            async def second_death() -> bool:
                return len(await system.letters()) == 3

            await until(second_death, what="the job that was retried in place died again")
            await came_to_rest(system, unsettled=1)
            told = await facts(system)
            assert len(told) == 5  # two done, one dead, one that died twice
        server.stop()
        server.save_data(tmp_path / "saved")
        runs = story.runs.copy()
        spread = [server.log_bytes * moment // (MOMENTS - 1) for moment in range(MOMENTS)]
        for moment in (marked_with_the_first_death, *spread):
            server.restore_data(tmp_path / "saved")
            server.rewind(moment)
            server.start()
            async with running(app_of(story, settings), short(settings)) as system:
                await take_over(system)
                await came_to_rest(system, unsettled=1)
                assert await facts(system) == told
                assert await effects(system) == {once.event_id: 1}
            assert_no_false_end(server, await_letters=[row["letter"] for row in told])
            server.stop()
        for counted in (runs, story.runs):  # where its delay was lost it is asked again, and postpones again
            del counted[later.event_id]
        assert story.runs == runs
        server.restore_data(tmp_path / "saved")
        server.rewind(server.log_bytes // 2)
        server.start()
        story.later_is_now = True
        async with running(app_of(story, settings), short(settings)) as system:
            await take_over(system)

            await system.engine.remove(
                QUEUE, job_id(later)
            )  # one that would wait for its hour; a person may, and it comes back

            async def settled() -> bool:
                """The look that is under way may be older than the removal, and would come again in an hour."""
                await system.sql.execute("UPDATE homing.deliveries SET check_at = now() WHERE settled_at IS NULL")
                return await system.unsettled() == 0

            await until(settled, 20, "the delivery is settled")
            assert await effects(system) == {once.event_id: 1, later.event_id: 1}


async def retry_in_place(settings: Settings, job: str) -> None:
    """What the retry button of a queue tool does."""
    queue = Queue(QUEUE, {"connection": settings.redis_dsn, "prefix": settings.prefix})
    await (await Job.fromId(queue, job)).retry("failed")
    await queue.close()


def assert_no_false_end(server: EmbeddedValkey, *, await_letters: list[int | None]) -> None:
    """Every finished job carries a mark that the ledger can name."""
    known = {f"dead:{letter}" for letter in await_letters if letter is not None} | {"done"}
    assert set(finished_marks(server.url(), "history").values()) <= known
