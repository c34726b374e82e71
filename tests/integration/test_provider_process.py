"""Providers as real processes: start, address, knobs from outside, hang, cut, kill, restart, end."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from homing.errors import ConfigurationError, ServerUnavailable
from shop.providers.process import ProviderProcess

ROOT = Path(__file__).resolve().parents[2]
ORDER = {"amount": 250_000, "currency": "VND", "reference": "order-1"}
KEY = {"Idempotency-Key": "authorize-order-1"}
WAIT_SECONDS = 20.0


@pytest.fixture(scope="module")
def running_gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProviderProcess]:
    """Run one gateway for this module."""
    with ProviderProcess.start("gateway", tmp_path_factory.mktemp("gateway")) as gateway:
        yield gateway


@pytest.fixture
def gateway(running_gateway: ProviderProcess) -> ProviderProcess:
    """Hand out the gateway in good health and without history."""
    running_gateway.reset(ledger=True)
    return running_gateway


def _client(provider: ProviderProcess) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=provider.url, timeout=WAIT_SECONDS, trust_env=False)


async def _leave_once_held(gateway: ProviderProcess, client: httpx.AsyncClient) -> None:
    """Ask for a hold and hang up as a time-out would, once the gateway holds the call."""
    asking = asyncio.ensure_future(client.post("/authorizations", json=ORDER, headers=KEY))
    await asyncio.to_thread(gateway.wait_until_held)
    asking.cancel()
    await asyncio.wait({asking})


async def test_a_hung_call_has_no_effect_until_it_is_released(gateway: ProviderProcess) -> None:
    """The call is accepted and not answered; once released it does its work and answers."""
    gateway.control(hang=True)
    async with _client(gateway) as client:
        hung = asyncio.ensure_future(client.post("/authorizations", json=ORDER))
        await asyncio.to_thread(gateway.wait_until_held)
        assert gateway.ledger()["totals"]["authorizations"] == 0
        gateway.release()
        assert (await hung).status_code == 201
        assert (await client.post("/authorizations", json=ORDER)).status_code == 201
    assert gateway.ledger()["injected"] == {"hang": 1}


async def test_a_caller_who_leaves_a_hung_call_leaves_no_effect(gateway: ProviderProcess) -> None:
    """A caller who gives up ends the held call: releasing it later does not do the work behind his back."""
    gateway.control(hang=1)
    async with _client(gateway) as client:
        await _leave_once_held(gateway, client)
        await asyncio.to_thread(gateway.wait_until_held, 0)
        gateway.release()
        assert gateway.ledger()["totals"]["authorizations"] == 0
        assert (await client.post("/authorizations", json=ORDER, headers=KEY)).status_code == 201


async def test_a_call_that_hangs_after_its_effect_is_replayed(gateway: ProviderProcess) -> None:
    """The caller gives up, the money is held, and the same key gets the answer he never saw."""
    gateway.control(hang_after_effect=1)
    async with _client(gateway) as client:
        await _leave_once_held(gateway, client)
        again = await client.post("/authorizations", json=ORDER, headers=KEY)
    assert (again.status_code, again.headers["Idempotent-Replayed"]) == (201, "true")
    assert gateway.ledger()["totals"]["authorizations"] == 1


async def test_a_cut_connection_gives_no_answer_at_all(gateway: ProviderProcess) -> None:
    """The effect happened and the caller sees a broken connection, not a status."""
    gateway.control(fail_after_effect=1, fail_with="cut")
    async with _client(gateway) as client:
        with pytest.raises(httpx.TransportError):
            await client.post("/authorizations", json=ORDER, headers=KEY)
        again = await client.post("/authorizations", json=ORDER, headers=KEY)
    assert (again.status_code, again.headers["Idempotent-Replayed"]) == (201, "true")
    assert gateway.ledger()["totals"]["authorizations"] == 1


def test_a_wrong_knob_is_refused_before_and_after_the_start(gateway: ProviderProcess, tmp_path: Path) -> None:
    """An unknown knob or a wrong value is a ConfigurationError with its name, wherever it is given."""
    with pytest.raises(ConfigurationError, match="'latancy_ms'; did you mean 'latency_ms'"):
        gateway.control(latancy_ms=5)
    with pytest.raises(ConfigurationError, match="latancy_ms"):
        ProviderProcess.start("gateway", tmp_path, latancy_ms=5)
    with pytest.raises(ConfigurationError, match="state_file"):
        ProviderProcess.start("mailbox", tmp_path, state_file=tmp_path / "state")
    assert gateway.control()["latency_ms"] == 0


def test_a_provider_that_does_not_start_says_why(gateway: ProviderProcess, tmp_path: Path) -> None:
    """A bad value or a taken port ends the start at once, with the reason from the child's log."""
    with pytest.raises(ServerUnavailable, match="'only': unknown operation 'refund'"):
        ProviderProcess.start("gateway", tmp_path, only=["refund"])
    with pytest.raises(ServerUnavailable, match="ddress already in use"):
        ProviderProcess.start("carrier", tmp_path, port=httpx.URL(gateway.url).port or 0)


async def test_a_killed_gateway_comes_back_with_its_history(tmp_path: Path) -> None:
    """After SIGKILL and a restart at the same address, keys still replay and nothing is held twice."""
    first = ProviderProcess.start("gateway", tmp_path, state_file=tmp_path / "gateway.jsonl", latency_ms=1)
    async with _client(first) as client:
        hold = (await client.post("/authorizations", json=ORDER, headers=KEY)).json()
    first.kill()
    assert not first.running
    with first.restart() as second:
        assert second.url == first.url
        assert second.pid != first.pid
        assert second.control()["latency_ms"] == 1
        async with _client(second) as client:
            again = await client.post("/authorizations", json=ORDER, headers=KEY)
        assert (again.json(), again.headers["Idempotent-Replayed"]) == (hold, "true")
        assert second.ledger()["totals"]["authorizations"] == 1


async def test_the_carrier_holds_its_limit_against_a_crowd(tmp_path: Path) -> None:
    """Of forty calls at once the limit passes, the rest is told when to come back, and the log proves it."""
    with ProviderProcess.start("carrier", tmp_path, throttle=5) as carrier:
        async with _client(carrier) as client:
            answers = await asyncio.gather(*(_look_up(client) for _ in range(40)))
        ledger = carrier.ledger()
    throttled = [answer for answer in answers if answer.status_code == 429]
    assert {answer.status_code for answer in answers} == {200, 429}
    assert all(int(answer.headers["Retry-After"]) >= 1 for answer in throttled)
    assert ledger["busiestSecondAdmitted"]["shop"] <= 5
    assert ledger["totals"]["requests"] == 40


async def _look_up(client: httpx.AsyncClient) -> httpx.Response:
    return await client.get("/shipments", params={"reference": "x"}, headers={"X-Api-Key": "shop"})


async def test_a_stop_does_not_wait_for_hung_calls(tmp_path: Path) -> None:
    """Stopping a provider that holds calls ends it and breaks their connections."""
    gateway = ProviderProcess.start("gateway", tmp_path, hang=True)
    async with _client(gateway) as client:
        hung = asyncio.ensure_future(client.post("/authorizations", json=ORDER))
        await asyncio.to_thread(gateway.wait_until_held)
        await asyncio.to_thread(gateway.stop)
        with pytest.raises(httpx.TransportError):
            await hung
    assert not gateway.running
    assert gateway.log_file.read_text() == ""
    gateway.stop()


def test_providers_die_with_their_parent(tmp_path: Path) -> None:
    """A SIGKILL of the process that started a provider ends the provider too."""
    program = (
        "import sys; from pathlib import Path; from shop.providers.process import ProviderProcess\n"
        "provider = ProviderProcess.start('gateway', Path(sys.argv[1]))\n"
        "print(provider.url, flush=True); sys.stdin.read()"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    assert parent.stdin is not None
    assert parent.stdout is not None
    with parent.stdin, parent.stdout:
        url = httpx.URL(parent.stdout.readline().strip())
        with socket.create_connection((url.host, url.port or 0), timeout=WAIT_SECONDS) as connection:
            parent.kill()
            assert connection.recv(1) == b""  # the provider's end closes only when it goes
        parent.wait(WAIT_SECONDS)


def test_the_ready_file_holds_the_address(tmp_path: Path) -> None:
    """Started by hand, a provider announces its address on standard output and in the ready file."""
    ready_file = tmp_path / "ready.json"
    command = [sys.executable, "-m", "shop.providers.carrier", "--port", "0", "--ready-file", str(ready_file)]
    carrier = subprocess.Popen([*command, "--throttle", "3"], stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert carrier.stdout is not None
    with carrier.stdout:
        announced = json.loads(carrier.stdout.readline())
        assert json.loads(ready_file.read_text()) == announced
        assert announced["pid"] == carrier.pid
        assert httpx.get(f"{announced['url']}/_control").json()["knobs"]["throttle"] == 3
        os.kill(carrier.pid, signal.SIGTERM)
        carrier.wait(WAIT_SECONDS)
