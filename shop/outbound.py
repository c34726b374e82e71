"""Calls to partners over HTTP: every one is bounded in time, and every failure says what it means for a job."""

import asyncio
from collections.abc import Mapping
from typing import Any

import httpx

from homing.http import TransientHTTPError

Json = dict[str, Any] | list[Any]


class Partner:
    """One partner's HTTP interface; `timeout_seconds` bounds a whole call, not only each of its reads."""

    def __init__(self, name: str, client: httpx.AsyncClient, timeout_seconds: float) -> None:
        self.name = name
        self._client = client
        self._timeout_seconds = timeout_seconds

    async def send(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        """Make one call and return its answer, whatever the status.

        Raises `TransientHTTPError` when no answer came in time. The partner may have acted all the same: whoever repeats a write
        must have a key or look first.
        """
        try:
            async with asyncio.timeout(self._timeout_seconds):
                return await self._client.request(method, path, params=params, json=body, headers=headers)
        except (TimeoutError, httpx.TimeoutException) as error:
            raise TransientHTTPError(
                f"{self.name}: {method} {path} gave no answer within {self._timeout_seconds:g} s"
            ) from error
        except httpx.TransportError as error:
            raise TransientHTTPError(f"{self.name}: {method} {path} failed: {error!r}") from error


def open_client(base_url: str, timeout_seconds: float, headers: Mapping[str, str] | None = None) -> httpx.AsyncClient:
    """A client for one partner, to be closed by its owner; it connects at the first call."""
    return httpx.AsyncClient(base_url=base_url, timeout=timeout_seconds, headers=headers, trust_env=False)
