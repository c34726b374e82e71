"""The journal that lets a killed provider come back, and the histories rebuilt from it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from shop.providers import carrier, gateway
from shop.providers.controls import Controls
from shop.providers.journal import DamagedJournalError, Journal
from shop.providers.knobs import Knobs

ORDER = {"amount": 250_000, "currency": "VND", "reference": "order-1"}
PARCEL = {"reference": "order-1", "address": {"street": "12 Hàng Bạc", "city": "Hà Nội"}, "weightGrams": 800}


@asynccontextmanager
async def _gateway(state_file: Path) -> AsyncIterator[httpx.AsyncClient]:
    with Journal(state_file) as journal:
        app = gateway.create_app(Controls(Knobs(), gateway.OPERATIONS), journal, clock=lambda: 1_000.0)
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://gateway") as client:
            yield client


@asynccontextmanager
async def _carrier(state_file: Path) -> AsyncIterator[httpx.AsyncClient]:
    with Journal(state_file) as journal:
        transport = httpx.ASGITransport(carrier.create_app(Controls(carrier.DEFAULTS, carrier.OPERATIONS), journal))
        headers = {"X-Api-Key": "shop"}
        async with httpx.AsyncClient(transport=transport, base_url="http://carrier", headers=headers) as client:
            yield client


async def _ledger(client: httpx.AsyncClient) -> Any:
    return (await client.get("/_ledger")).json()


async def test_a_gateway_comes_back_with_holds_keys_and_clock(tmp_path: Path) -> None:
    """After a restart the ledger reads the same, keys still replay, and the advanced clock has not gone back."""
    state_file = tmp_path / "gateway.jsonl"
    async with _gateway(state_file) as before:
        hold = (await before.post("/authorizations", json=ORDER, headers={"Idempotency-Key": "a"})).json()
        capture = f"/authorizations/{hold['id']}/capture"
        await before.post("/_control/advance", json={"seconds": 3_600})
        captured = await before.post(capture, json={"amount": 250_000}, headers={"Idempotency-Key": "c"})
        await before.post(capture, json={"amount": 250_000}, headers={"Idempotency-Key": "c"})
        written = await _ledger(before)
    async with _gateway(state_file) as after:
        assert await _ledger(after) == written
        replay = await after.post(capture, json={"amount": 250_000}, headers={"Idempotency-Key": "c"})
        assert (replay.json(), replay.headers["Idempotent-Replayed"]) == (captured.json(), "true")
        assert (await after.post("/_control/advance", json={"seconds": 1})).json() == {"now": 4_601.0}


async def test_a_carrier_comes_back_with_shipments_and_log(tmp_path: Path) -> None:
    """After a restart the shipment is found, its reference is taken, and the log of requests is complete."""
    state_file = tmp_path / "carrier.jsonl"
    async with _carrier(state_file) as before:
        await before.post("/shipments", json=PARCEL)
        await before.get("/shipments", params={"reference": "order-1"})
        written = await _ledger(before)
    async with _carrier(state_file) as after:
        assert await _ledger(after) == written
        assert (await after.post("/shipments", json=PARCEL)).status_code == 409


async def test_a_forgotten_ledger_stays_forgotten(tmp_path: Path) -> None:
    """What a reset dropped does not return with a restart."""
    async with _gateway(tmp_path / "gateway.jsonl") as before:
        assert (await before.post("/authorizations", json=ORDER)).status_code == 201
        await before.post("/_control/reset", json={"ledger": True})
    async with _carrier(tmp_path / "carrier.jsonl") as before:
        assert (await before.post("/shipments", json=PARCEL)).status_code == 201
        await before.post("/_control/reset", json={"ledger": True})
    async with _gateway(tmp_path / "gateway.jsonl") as after:
        assert (await _ledger(after))["authorizations"] == []
    async with _carrier(tmp_path / "carrier.jsonl") as after:
        assert (await after.post("/shipments", json=PARCEL)).status_code == 201


def test_a_torn_last_line_is_cut_off(tmp_path: Path) -> None:
    """A line that a kill tore in two was never answered: it is dropped, and the next line starts clean."""
    path = tmp_path / "torn.jsonl"
    path.write_bytes(b'{"a": 1}\n{"b": ')
    with Journal(path) as journal:
        assert list(journal.lines()) == ['{"a": 1}']
        journal.append('{"c": 3}')
    assert path.read_bytes() == b'{"a": 1}\n{"c": 3}\n'


def test_a_damaged_line_is_named(tmp_path: Path) -> None:
    """A broken line in the middle is not skipped in silence: the file and the line are named."""
    path = tmp_path / "damaged.jsonl"
    path.write_text('{"a": 1}\nnonsense\n{"c": 3}\n')
    with Journal(path) as journal, pytest.raises(DamagedJournalError, match="line 2"):
        list(journal.lines())
