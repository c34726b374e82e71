"""Health and metrics over HTTP."""

import json
import socket
from collections.abc import Iterator

import httpx
import pytest

from homing.errors import ConfigurationError
from homing.processes import http as served
from homing.processes.http import Answer, HealthServer, answer_json


def _broken() -> Answer:
    raise RuntimeError("no")


@pytest.fixture
def server() -> Iterator[HealthServer]:
    """One that answers well, badly and not at all."""
    answers = {
        "/good": lambda: answer_json({"live": True}, good=True),
        "/bad": lambda: answer_json({"reasons": ["\x1b[31m"]}, good=False),
        "/broken": _broken,
    }
    running = HealthServer("127.0.0.1:0", answers)
    running.start()
    yield running
    running.close()


def test_each_path_has_its_status_and_document(server: HealthServer) -> None:
    """200 for good, 503 for bad, 404 for unknown, 500 for a mistake of ours; a query changes nothing."""
    with httpx.Client(base_url=f"http://{server.address}") as client:
        assert client.get("/good?now").json() == {"live": True}
        bad = client.get("/bad")
        assert (bad.status_code, b"\x1b" in bad.content) == (503, False)
        assert client.get("/../etc/passwd").status_code == 404
        assert client.get("/broken").status_code == 500
        head = client.head("/good")
        assert (head.status_code, head.content) == (200, b"")
        assert client.post("/good").status_code == 501


def test_a_client_that_says_nothing_is_let_go(server: HealthServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """It cannot hold a thread, and others are answered meanwhile."""
    host, port = server.address.split(":")
    with socket.create_connection((host, int(port))) as silent:
        assert httpx.get(f"http://{server.address}/good").status_code == 200
        silent.settimeout(served.REQUEST_SECONDS + 5)
        silent.sendall(b"GET /good HTTP/1.1\r\nX: ")
        assert silent.recv(1) == b""


@pytest.mark.parametrize("address", ["9464", "localhost", "localhost:http", "127.0.0.1:70000"])
def test_an_address_that_is_none_is_refused(address: str) -> None:
    """With the value and the form it must have."""
    with pytest.raises(ConfigurationError, match=r"HOMING_HTTP_ADDRESS.*host:port"):
        HealthServer(address, {})


def test_an_address_that_is_taken_is_refused(server: HealthServer) -> None:
    """It says which setting to change."""
    with pytest.raises(ConfigurationError, match=r"HOMING_HTTP_ADDRESS.*set another one"):
        HealthServer(server.address, {})


def test_documents_are_json() -> None:
    """Whatever the reasons say, a terminal is safe."""
    assert json.loads(answer_json(["é\n"], good=True).body) == ["é\n"]
