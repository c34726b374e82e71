"""`homing health`: one line and an exit code that a container's probe understands."""

import json
import socket
from collections.abc import Iterator

import pytest

from homing.cli.exits import Exit
from homing.cli.main import main
from homing.processes.http import HealthServer, answer_json

STALLED = {"text": "topic a\x1b[31m: 3 events wait", "remedy": "no relay lives, start one"}


def _has_ipv6() -> bool:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[HealthServer]:
    """A process that is live, not ready, and where nothing flows."""
    answers = {
        "/livez": lambda: answer_json({"live": True, "reasons": []}, good=True),
        "/readyz": lambda: answer_json({"ready": False, "reasons": ["Redis does not answer"]}, good=False),
        "/verdict": lambda: answer_json({"level": "stalled", "reasons": [STALLED]}, good=False),
    }
    server = HealthServer("127.0.0.1:0", answers)
    server.start()
    monkeypatch.setenv("HOMING_HTTP_ADDRESS", server.address.replace("127.0.0.1", "0.0.0.0"))  # noqa: S104 - asked, not listened on
    yield server
    server.close()


@pytest.mark.parametrize(
    ("question", "code", "line"),
    [
        ([], Exit.DONE, "live"),
        (["live"], Exit.DONE, "live"),
        (["ready"], Exit.FOUND_WRONG, "not ready: Redis does not answer"),
        (["verdict"], Exit.FOUND_WRONG, "stalled: topic a\ufffd[31m: 3 events wait: no relay lives, start one"),
    ],
)
def test_the_answer_is_one_line_and_a_code(
    served: HealthServer, capsys: pytest.CaptureFixture[str], question: list[str], code: Exit, line: str
) -> None:
    """0 when it is well and 1 when not, with the reason; nothing in it can harm a terminal."""
    assert main(["health", *question]) == code
    assert capsys.readouterr().out == line + "\n"
    assert main(["--json", "health", *question]) == code
    assert json.loads(capsys.readouterr().out)["good"] is (code is Exit.DONE)


@pytest.mark.skipif(not _has_ipv6(), reason="this machine has no IPv6")
def test_an_address_of_version_6_is_asked_like_any_other(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In brackets, as in a URL; a server that listens everywhere is asked at home."""
    server = HealthServer("[::1]:0", {"/livez": lambda: answer_json({"live": True}, good=True)})
    server.start()
    assert server.address.startswith("[::1]:")
    monkeypatch.setenv("HOMING_HTTP_ADDRESS", server.address.replace("::1", "::"))
    assert main(["health"]) == Exit.DONE
    server.close()
    assert capsys.readouterr().out == "live\n"


def test_nobody_there_is_no_verdict(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """4 when nobody answers, or somebody who is no worker; 3 when it was turned off."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        monkeypatch.setenv("HOMING_HTTP_ADDRESS", f"127.0.0.1:{free.getsockname()[1]}")
        assert main(["health"]) == Exit.SERVER
    other = HealthServer("127.0.0.1:0", {})
    other.start()
    monkeypatch.setenv("HOMING_HTTP_ADDRESS", other.address)
    assert main(["health"]) == Exit.SERVER
    other.close()
    monkeypatch.setenv("HOMING_HTTP_ADDRESS", "off")
    assert main(["health", "ready"]) == Exit.CONFIGURATION
    said = capsys.readouterr().err.splitlines()
    assert ["no worker or relay answers" in said[0], "no worker or relay of this version" in said[1]] == [True, True]
    assert "HOMING_HTTP_ADDRESS is 'off'" in said[2]
