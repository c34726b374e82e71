"""What lies between this process and the server: whether notifications arrive, and whether a pooler hands out connections."""

import asyncio
from dataclasses import dataclass

import asyncpg

from homing.schema.statement import load
from homing.upkeep.doctor.finding import Finding, error, ok, warning

HEAR_SECONDS = 2.0
CONNECT_SECONDS = 10.0
CHANNEL = "homing_doctor"

_HERE = "homing.upkeep.doctor"
NOTIFY = load(_HERE, "notify").numbered
BACKEND = load(_HERE, "backend").numbered


@dataclass(frozen=True, slots=True, kw_only=True)
class Path:
    """What two probes showed. `announced`: the process the connection believes to talk to; `before`, `after`: who answered.

    Between the two a second connection held a transaction open: whoever gives connections out by transaction gives it the first one's.
    """

    hears: bool
    announced: int
    before: int
    after: int


def judge_listening(path: Path) -> Finding:
    """Without notifications a relay polls: everything works, half a second later."""
    if path.hears:
        return ok("listen", "notifications arrive")
    return warning(
        "listen",
        f"a notification to ourselves did not arrive within {HEAR_SECONDS:g} s: relays only poll",
        "set HOMING_LISTEN_DATABASE_URL to the server itself, past the pooler",
    )


def judge_pooler(path: Path) -> Finding:
    """Transactions of ours are short and leave no session state, but prepared statements and lock_timeout belong to sessions."""
    if path.before != path.after:
        return error(
            "pooler",
            "a pooler gives every transaction another connection: session settings and prepared statements get lost",
            "use the pooler's session mode for DATABASE_URL, or go past it",
        )
    if path.announced != path.before:
        return warning(
            "pooler",
            "a pooler is in the way, and kept our session",
            "make sure that it is in session mode, and that its pool is as large as the connections that Homing opens",
        )
    return ok("pooler", "no pooler is in the way")


async def find_path(dsn: str, listen_dsn: str) -> Path:
    """Probe both addresses; the driver's errors pass."""
    hears = await _hears(listen_dsn)
    one = await asyncpg.connect(dsn, timeout=CONNECT_SECONDS, statement_cache_size=0)
    two = await asyncpg.connect(dsn, timeout=CONNECT_SECONDS, statement_cache_size=0)
    try:
        before = await one.fetchval(BACKEND)
        async with two.transaction():
            await two.fetchval(BACKEND)
            after = await one.fetchval(BACKEND)
        return Path(hears=hears, announced=one.get_server_pid(), before=before, after=after)
    finally:
        await one.close()
        await two.close()


async def _hears(dsn: str) -> bool:
    connection = await asyncpg.connect(dsn, timeout=CONNECT_SECONDS, statement_cache_size=0)
    heard = asyncio.Event()
    try:
        await connection.add_listener(CHANNEL, lambda *_: heard.set())
        await connection.execute(NOTIFY, CHANNEL)
        async with asyncio.timeout(HEAR_SECONDS):
            await heard.wait()
    except TimeoutError:
        return False
    finally:
        connection.terminate()
    return True
