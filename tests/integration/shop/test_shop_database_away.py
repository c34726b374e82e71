"""A database that goes away under the API: customers are asked to come again, and their orders count once."""

from typing import Any

import httpx
from sqlalchemy import text

from tests.integration.shop.world import PIECES, World, wish

_CUT_ALL_OTHERS = text("""
    SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()""")


async def _post(api: httpx.AsyncClient, key: str) -> httpx.Response:
    body: dict[str, Any] = wish().model_dump(mode="json", by_alias=True)
    return await api.post("/orders", json=body, headers={"Idempotency-Key": key})


async def test_a_lost_database_is_a_503_and_the_same_key_goes_on(world: World) -> None:
    """Every connection of the API is cut: the next order is told to ask again, and asking again places it once."""
    async with world.api() as api:
        assert (await _post(api, "before")).status_code == 201
        async with world.engine.connect() as connection:
            await connection.execute(_CUT_ALL_OTHERS)
        lost = await _post(api, "lost")
        assert (lost.status_code, lost.json()["title"]) == (503, "database unavailable")
        assert lost.headers["retry-after"] == "1"
        assert (await _post(api, "lost")).status_code == 201
        assert (await _post(api, "lost")).status_code == 200
    assert len(await world.rows("orders")) == 2
    assert await world.left() == PIECES - 2
