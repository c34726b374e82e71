"""Schedules as pages: what the clock will do, and the deeds that steer it."""

import re

import httpx
import pytest

from homing.queue.schedules import Schedule
from tests.integration.dashboard.conftest import send
from tests.integration.dashboard.test_jobs_pages import text_of
from tests.integration.dashboard.world import QUEUE, World
from tests.integration.poisoned import HOSTILE

INSERT = """
INSERT INTO homing.schedules (queue, schedule, source, job_name, data, options, cron, zone, every_ms, next_ms, last_ms, ticks)
VALUES ('work', $1, $2, 'do', '{}', '{}', $3, $4, $5, $6, $6, $7)
"""
NIGHTLY = Schedule(id="nightly", job_name="do", cron="0 3 * * *", zone="Asia/Ho_Chi_Minh")


async def written(world: World) -> None:
    """A schedule that the engine holds and the ledger knows."""
    await world.engine.upsert_schedules(QUEUE, [NIGHTLY])
    (held,) = await world.engine.schedules(QUEUE)
    await world.sql.execute(INSERT, "nightly", "engine", NIGHTLY.cron, NIGHTLY.zone, None, held.next_ms, 1)


async def test_schedules_are_seen_and_steered(operator: httpx.AsyncClient, world: World) -> None:
    """The next five times by its own clock; run now, pause and resume are asked first and kept with their reason."""
    await written(world)
    page = text_of(await operator.get("/schedules"))
    assert "0 3 * * * Asia/Ho_Chi_Minh" in page
    assert page.count("03:00:00") == 5
    asked = await send(operator, "/schedules/pause", queue=QUEUE, name="nightly")
    assert "1 schedule" in text_of(asked)
    assert await world.actions() == []
    sure = {"queue": QUEUE, "name": "nightly", "confirmed": "yes"}
    assert (await send(operator, "/schedules/pause", **sure)).status_code == 400
    assert (await send(operator, "/schedules/pause", **sure, reason="a holiday")).status_code == 303
    assert (await send(operator, "/schedules/pause", **sure, reason="again")).status_code == 409
    assert "paused" in text_of(await operator.get("/schedules?queue=work"))
    assert (await send(operator, "/schedules/resume", **sure, reason="it is over")).status_code == 303
    ran = await send(operator, "/schedules/run", **sure, reason="the night was missed")
    assert "runs now" in text_of(await operator.get(ran.headers["location"]))
    assert [row[1] for row in await world.actions()] == ["pause", "resume", "run"]
    assert (await send(operator, "/schedules/remove", **sure, reason="me")).status_code == 403
    assert (await send(operator, "/schedules/pause", **(sure | {"name": "none"}), reason="x")).status_code == 404
    assert (await send(operator, "/schedules/burn", **sure, reason="x")).status_code == 404


@pytest.mark.parametrize(
    ("name", "cron", "zone", "every_ms", "next_ms"),
    [
        (HOSTILE.replace("\x00", ""), HOSTILE.replace("\x00", ""), "Nowhere/Land", None, 2**62),
        ("late", None, "UTC", 2**62, 2**62),
        ("never", "0 0 31 2 *", "UTC", None, -(2**62)),
        ("theirs", "0 0 0 L * *", "UTC", None, 1_900_000_000_000),
    ],
)
async def test_whatever_a_schedule_holds_is_shown(  # noqa: PLR0917 - a row
    admin: httpx.AsyncClient, world: World, name: str, cron: str | None, zone: str, every_ms: int | None, next_ms: int
) -> None:
    """Patterns, zones and times that nobody can read are a row like any other; one that nobody's code has can be removed."""
    await world.sql.execute(INSERT, name, "engine", cron, zone, every_ms, next_ms, 2**62)
    page = await admin.get("/schedules")
    assert page.status_code == 200, re.search(r'class="lead">(.*)', page.text)
    assert "<script>alert" not in page.text
    if name.isalpha():
        sure = {"queue": QUEUE, "name": name, "confirmed": "yes", "reason": "whose is it?"}
        assert (await send(admin, "/schedules/remove", **sure)).status_code == 303
        assert (
            name
            not in text_of(await admin.get("/schedules"))
            .replace("whose", "")
            .partition("Schedules")[2]
            .partition("removed")[2]
        )
