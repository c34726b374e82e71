"""What happens to servers when the processes around them die."""

import gc
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from homing.embedded import EmbeddedPostgres, EmbeddedValkey, fast_test_settings, parent, stop_with_parent
from homing.embedded.processes import program_of, wait_until

Server = EmbeddedPostgres | EmbeddedValkey
only_valkey = pytest.mark.parametrize("server", [EmbeddedValkey], indirect=True)  # the code is the same for both

PRELUDE = """
import json, os, signal, sys
from pathlib import Path
from homing.embedded import EmbeddedPostgres, EmbeddedValkey, fast_test_settings, stop_with_parent
kind, home = sys.argv[1], Path(sys.argv[2])
server = EmbeddedPostgres(home, settings=fast_test_settings) if kind == "EmbeddedPostgres" else EmbeddedValkey(home)
def report(**facts):
    print(json.dumps(facts), flush=True)
def stay():
    sys.stdin.read()
"""
STAY = "server.start()\nreport(pid=server.pid, attached=server.attached, url=server.url())\nstay()"


@pytest.fixture(params=[EmbeddedPostgres, EmbeddedValkey])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    """A server that was not started yet, and is stopped in the end whoever started it."""
    home = tmp_path / "server"
    made: Server = (
        EmbeddedPostgres(home, settings=fast_test_settings)
        if request.param is EmbeddedPostgres
        else EmbeddedValkey(home)
    )
    yield made
    made.stop(immediate=True)


def child_of(server: Server, code: str) -> subprocess.Popen[bytes]:
    """Start a Python that starts the same server and runs the code."""
    arguments = [sys.executable, "-c", PRELUDE + code, type(server).__name__, str(server.home)]
    return subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def report_of(child: subprocess.Popen[bytes]) -> dict[str, Any]:
    assert child.stdout is not None
    line = child.stdout.readline()
    assert line, "the child ended without a report"
    facts: dict[str, Any] = json.loads(line)
    return facts


def kill(child: subprocess.Popen[bytes]) -> None:
    """Kill it with SIGKILL; its output must end with it: nothing that it started may hold the pipe."""
    child.kill()
    child.communicate(timeout=60)


def gone(pid: int) -> Callable[[], bool]:
    return lambda: program_of(pid) is None


def test_killed_parent_leaves_a_server_to_attach_to(server: Server) -> None:
    """After kill -9 of the process that started it, the server runs on and the next start is the same server."""
    child = child_of(server, STAY)
    facts = report_of(child)
    kill(child)
    server.start()
    assert (server.attached, server.pid, server.url()) == (True, facts["pid"], facts["url"])


@only_valkey
def test_ended_parent_leaves_a_server_and_no_open_pipe(server: Server) -> None:
    """A process that ends without stopping lets go of its output although the server runs on."""
    child = child_of(server, "server.start()\nreport(pid=server.pid)")
    output, _ = child.communicate(timeout=60)
    assert server.start().pid == json.loads(output)["pid"]


def test_three_starters_make_one_server(server: Server) -> None:
    """Of three processes that start at once one starts, two attach, all to the same server."""
    children = [child_of(server, STAY) for _ in range(3)]
    reports = [report_of(child) for child in children]
    for child in children:
        kill(child)
    assert sorted(facts["attached"] for facts in reports) == [False, True, True]
    assert len({(facts["pid"], facts["url"]) for facts in reports}) == 1


def test_dead_server_that_nobody_collects_does_not_block_the_next(server: Server) -> None:
    """A killed server whose parent never collects it stays a zombie; another process starts a new one all the same."""
    never_collect = "from homing.embedded import lifecycle\nkept = []\nlifecycle.reap_in_background = kept.append\n"
    child = child_of(server, never_collect + STAY)
    first = report_of(child)
    os.kill(first["pid"], signal.SIGKILL)
    wait_until(gone(first["pid"]), timeout_seconds=10, waiting_for="the zombie")
    os.kill(first["pid"], 0)
    server.start()
    assert server.pid != first["pid"]
    assert (server.attached, server.url()) == (False, first["url"])
    kill(child)


def test_watcher_stops_the_server_when_the_parent_is_killed(server: Server) -> None:
    """With `stop_with_parent` kill -9 of the parent ends the server cleanly and the watcher with it, after a restart too."""
    child = child_of(
        server,
        "server.start()\nwatcher = server.watch_parent()\nserver.kill()\nserver.start()\n"
        "report(pid=server.pid, watcher=watcher)\nstay()",
    )
    facts = report_of(child)
    assert psutil.Process(facts["watcher"]).net_connections() == []
    kill(child)
    wait_until(gone(facts["pid"]), timeout_seconds=15, waiting_for="the server to end")
    wait_until(gone(facts["watcher"]), timeout_seconds=15, waiting_for="the watcher to end")
    assert not server._pid_file.exists()


@only_valkey
def test_forked_child_does_not_keep_the_server_alive(server: Server) -> None:
    """A fork that outlives the parent, and holds the watcher's pipe, does not delay the stop."""
    child = child_of(
        server,
        "server.start()\nstop_with_parent(server)\n"
        "fork = os.fork()\n"
        "if fork == 0:\n    os.close(1)\n    signal.pause()\n"
        "report(pid=server.pid, fork=fork)\nstay()",
    )
    facts = report_of(child)
    kill(child)
    try:
        wait_until(gone(facts["pid"]), timeout_seconds=15, waiting_for="the server to end")
        assert program_of(facts["fork"]) is not None
    finally:
        os.kill(facts["fork"], signal.SIGKILL)


@only_valkey
def test_dropped_object_does_not_end_the_watch(server: Server) -> None:
    """The watcher's pipe stays open when nobody holds the server's object any more: only our end counts."""
    stop_with_parent(type(server)(server.home).start())
    gc.collect()
    watcher = parent._watchers[server._folder.server_lock]
    assert watcher.stdin is not None
    assert not watcher.stdin.closed
    server.stop()
    assert program_of(watcher.pid) is None


@only_valkey
def test_stop_ends_the_watcher(server: Server) -> None:
    """A stopped server needs no watcher; a second request for one makes no second one."""
    server.start()
    stop_with_parent(server)
    watcher = server.watch_parent()
    assert server.watch_parent() == watcher
    server.stop()
    assert program_of(watcher) is None


def test_start_killed_half_way_through_initdb_is_made_good(tmp_path: Path) -> None:
    """A starter that dies while the cluster is made leaves nothing that stops or confuses the next one."""
    server = EmbeddedPostgres(tmp_path / "server", settings=fast_test_settings)
    child = child_of(server, STAY)
    marker = server.home / "data.new" / "PG_VERSION"
    wait_until(marker.exists, timeout_seconds=30, waiting_for="initdb")
    kill(child)
    with server.start():
        assert not server.attached
        assert not marker.exists()
