"""What the doctor concludes from facts that no test can make true on a server."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from homing import Event, Homing
from homing.config.settings import Retention, Settings
from homing.durations import days, minutes
from homing.operations.doctor import judge
from homing.queue.redis.checkup import Checkup
from homing.queue.redis.server import ServerFacts
from homing.upkeep.doctor import Level, schema, server
from homing.upkeep.doctor.reach import Path, judge_listening, judge_pooler
from homing.upkeep.doctor.times import connections_needed, judge_retention, judge_times


class Sent(Event, topic="doctor.sent", unrouted=True):
    """Anything."""


NOW = datetime(2026, 1, 1, tzinfo=UTC)
FACTS: dict[str, Any] = {
    "fsync": "on",
    "synchronous_commit": "on",
    "async_standbys": 0,
    "is_standby": False,
    "read_only": "off",
    "usable_connections": 97,
    "connections": 12,
    "now": NOW,
}
SERVER = ServerFacts(
    version=(7, 2),
    is_loading=False,
    is_replica=False,
    is_cluster=False,
    eviction_policy="noeviction",
    appends_to_disk=True,
)
CHECKUP: dict[str, Any] = {
    "on_cluster": False,
    "label": "redis://there",
    "facts": SERVER,
    "clock_offset_seconds": 0.0,
    "round_trip_seconds": 0.01,
    "memory_bytes": 1,
    "memory_limit_bytes": 0,
    "strange_queues": (),
    "left_behind": (),
}


@pytest.mark.parametrize(
    ("change", "level"),
    [
        ({}, Level.OK),
        ({"async_standbys": 1}, Level.WARNING),
        ({"async_standbys": 1, "synchronous_commit": "remote_apply"}, Level.OK),
        ({"synchronous_commit": "off"}, Level.ERROR),
        ({"fsync": "off"}, Level.ERROR),
    ],
)
def test_commits(change: dict[str, Any], level: Level) -> None:
    """What PostgreSQL may forget is an error when a crash is enough, and a warning when it takes a failover."""
    assert server.judge_commits(FACTS | change).level is level


@pytest.mark.parametrize("change", [{"is_standby": True}, {"read_only": "on"}])
def test_read_only_servers(change: dict[str, Any]) -> None:
    """A server that takes no writes is an error."""
    assert server.judge_writable(FACTS).level is Level.OK
    assert server.judge_writable(FACTS | change).level is Level.ERROR


@pytest.mark.parametrize(("needed", "level"), [(15, Level.OK), (80, Level.WARNING), (98, Level.ERROR)])
def test_the_budget_of_connections(needed: int, level: Level) -> None:
    """More than all is an error, most of all a warning."""
    assert server.judge_budget(FACTS, needed=needed, processes="one worker").level is level


@pytest.mark.parametrize(("offset", "level"), [(0.9, Level.OK), (-2.0, Level.WARNING), (2.0, Level.WARNING)])
def test_the_database_clock(offset: float, level: Level) -> None:
    """An offset is believed beyond what asking took."""
    machine = NOW + timedelta(seconds=offset)
    assert server.judge_clock(FACTS, machine, 0.05).level is level
    assert server.judge_clock(FACTS, machine, 3.0).level is Level.OK


@pytest.mark.parametrize(
    ("announced", "before", "after", "level"),
    [(1, 1, 1, Level.OK), (7, 1, 1, Level.WARNING), (7, 1, 2, Level.ERROR)],
)
def test_poolers(announced: int, before: int, after: int, level: Level) -> None:
    """Another process than announced is a pooler; another one for the next transaction is one that loses sessions."""
    path = Path(hears=False, announced=announced, before=before, after=after)
    assert judge_pooler(path).level is level
    assert judge_listening(path).level is Level.WARNING


def test_dead_rows_and_invalid_indexes() -> None:
    """Many dead rows beside few live ones are a warning, an invalid index is an error."""
    row = {"name": "outbox_events", "live": 10, "dead": 200_000, "autovacuum": True}
    assert [finding.code for finding in schema.judge_vacuum([row], autovacuum=True)] == ["autovacuum", "dead-rows"]
    assert next(schema.judge_vacuum([row], autovacuum=False)).level is Level.ERROR
    rows = [{"name": name, "valid": name != "deliveries_unsettled"} for name in schema.expected_indexes()]
    assert schema.judge_indexes(rows).text == "indexes are invalid: deliveries_unsettled"


@pytest.mark.parametrize(
    ("code", "changes", "level"),
    [
        ("redis-version", {"version": (6, 0)}, Level.ERROR),
        ("redis-version", {"version": None}, Level.WARNING),
        ("redis-role", {"is_cluster": True}, Level.ERROR),
        ("redis-role", {"is_replica": True}, Level.ERROR),
        ("redis-role", {"is_loading": True}, Level.ERROR),
        ("redis-eviction", {"eviction_policy": None}, Level.WARNING),
        ("redis-aof", {"appends_to_disk": None}, Level.WARNING),
    ],
)
def test_redis(code: str, changes: dict[str, Any], level: Level) -> None:
    """Each fact that makes a server unfit, or that it hides, is one finding."""
    facts = {name: getattr(SERVER, name) for name in SERVER.__slots__} | changes
    found = {each.code: each.level for each in judge(Checkup(**CHECKUP | {"facts": ServerFacts(**facts)}))}
    assert {name: found[name] for name in found if found[name] is not Level.OK} == {code: level}


def test_the_clock_of_redis() -> None:
    """An offset beyond what asking took is a warning."""
    found = {each.code: each.level for each in judge(Checkup(**CHECKUP | {"clock_offset_seconds": 3.0}))}
    assert found["redis-clock"] is Level.WARNING


def app_with(**queue: Any) -> Homing:
    app = Homing("times")

    @app.queue("mail", **queue).handler("send", on=Sent, at_least_once=True, timeout=minutes(10))
    async def send(event: Sent) -> None:
        """Never run."""

    return app


@pytest.mark.parametrize(
    ("retention", "queue", "level"),
    [
        (Retention(), {"other_producers": True}, Level.OK),
        (Retention(inbox=minutes(1)), {"other_producers": True}, Level.ERROR),
        (Retention(dead_letters=days(1)), {}, Level.WARNING),
    ],
)
def test_the_retention_contract(retention: Retention, queue: dict[str, Any], level: Level) -> None:
    """What workers refuse at start is an error here, what they say is a warning."""
    app = app_with(**queue)
    assert {each.level for each in judge_retention(app.queues, app.handlers, Settings(retention=retention))} == {level}


def test_the_times_of_a_stop() -> None:
    """A run that may outlast the grace is named, by its handler."""
    app = app_with()
    (found,) = judge_times(app.handlers, Settings())
    assert (found.level, found.code) == (Level.WARNING, "grace")
    assert found.text.startswith("mail.send may run for 600 s and a stop waits 25 s")
    (fits,) = judge_times(app.handlers, Settings(shutdown_grace=minutes(10)))
    assert fits.level is Level.OK


def test_what_a_worker_opens() -> None:
    """A transaction for each slot of each process, the ledger's pool, and one connection that listens."""
    app = app_with(concurrency=20)
    assert connections_needed(app.queues, Settings(worker_processes=2)) == 2 * (20 + 4) + 1
