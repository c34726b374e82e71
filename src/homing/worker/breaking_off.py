"""Ending a database connection beneath whoever waits on it: the one way out of a wait for an answer that never comes."""

import os
import socket
from contextlib import suppress
from typing import Any

from sqlalchemy import Connection


def driver_of(connection: Connection | None) -> Any:
    """The driver's own connection."""
    return None if connection is None else connection.connection.driver_connection


def break_off(driver: Any) -> None:
    """End a driver's connection, from any thread where it is no asyncpg one: asyncpg can do that itself, under others their socket is shut down."""
    if hasattr(driver, "terminate"):
        driver.terminate()
        return
    with suppress(Exception), socket.socket(fileno=os.dup(driver.fileno())) as same:  # it may have ended meanwhile
        same.shutdown(socket.SHUT_RDWR)
