"""What the server's settings, its sessions and its clock mean for deliveries. Pure."""

from collections.abc import Iterator
from datetime import datetime

from homing.durations import describe_seconds
from homing.ledger.ledger import CALL_SECONDS, Row
from homing.upkeep.doctor.finding import Finding, error, ok, warning

OLD_TRANSACTION_SECONDS = 900.0
CLOCK_SECONDS = 1.0
TIGHT_SHARE = 0.8


def judge_commits(row: Row) -> Finding:
    """The ledger is as durable as PostgreSQL's commits; what it forgets is done again where its effect was forgotten too."""
    lost = [
        reason
        for reason, holds in (
            ("fsync is off: a crash of the machine may lose or break everything", row["fsync"] == "off"),
            (
                "synchronous_commit is off: a crash forgets up to a second of commits",
                row["synchronous_commit"] == "off",
            ),
            (
                f"{row['async_standbys']} standbys are asynchronous: promoting one forgets what had not reached it",
                row["async_standbys"] and row["synchronous_commit"] in ("on", "local", "off"),
            ),
        )
        if holds
    ]
    if not lost:
        return ok("commits", "what was committed is on disk")
    fix = "set fsync and synchronous_commit to on, and name a synchronous standby; or accept that what is forgotten is done again"
    if row["synchronous_commit"] == "off" or row["fsync"] == "off":
        return error("commits", "; ".join(lost), fix)
    return warning("commits", "; ".join(lost), fix)


def judge_writable(row: Row) -> Finding:
    """A standby, or sessions that are read-only unless they say otherwise, take no event."""
    if row["is_standby"]:
        return error("writable", "this server is a standby", "point DATABASE_URL to the primary")
    if row["read_only"] == "on":
        return error(
            "writable", "default_transaction_read_only is on", "ALTER ROLE … SET default_transaction_read_only = off"
        )
    return ok("writable", "the server takes writes")


def judge_transactions(row: Row) -> Finding:
    """An old transaction keeps dead rows in every table, and every question of the relay walks over them."""
    if row["oldest_seconds"] > OLD_TRANSACTION_SECONDS:
        age = describe_seconds(float(round(row["oldest_seconds"])))
        return warning(
            "old-transaction",
            f"a transaction has been open for {age}: {row['oldest_who']}; vacuum can tidy nothing newer",
            "end it, and set idle_in_transaction_session_timeout for whoever leaves transactions open",
        )
    return ok("old-transaction", "no transaction is older than 15 minutes")


def judge_session(row: Row) -> Iterator[Finding]:
    """What the role gives every session of ours unasked."""
    if row["isolation"] != "read committed":
        yield warning(
            "isolation",
            f"default_transaction_isolation is {row['isolation']}: concurrent duplicates and busy rows end in retries",
            "ALTER ROLE … SET default_transaction_isolation = 'read committed'",
        )
    else:
        yield ok("isolation", "transactions are READ COMMITTED")
    if 0 < row["statement_timeout_ms"] < CALL_SECONDS * 1000:
        yield warning(
            "statement-timeout",
            f"statement_timeout is {row['statement_timeout_ms']} ms: statements on a busy ledger are broken off before {CALL_SECONDS:g} s",
            f"raise it for this role to {CALL_SECONDS:g} s or more; handlers' own statements have their own limits",
        )
    else:
        yield ok("statement-timeout", "statements have the time that they may need")


def judge_idle_timeout(row: Row, *, attempt_seconds: float, handler: str) -> Finding:
    """A handler's transaction is idle while the handler does something else; the server must let it be."""
    if 0 < row["idle_timeout_ms"] < attempt_seconds * 1000:
        return warning(
            "idle-in-transaction",
            f"idle_in_transaction_session_timeout is {row['idle_timeout_ms']} ms and {handler} may run for {attempt_seconds:g} s: "
            "the server ends the transaction of a handler that waits for somebody else",
            "raise it for this role above the longest attempt, or call others outside the transaction",
        )
    return ok("idle-in-transaction", "handlers' transactions may be idle as long as an attempt lasts")


def judge_clock(row: Row, machine: datetime, round_trip_seconds: float) -> Finding:
    """Rows are judged by the database's clock and jobs by Redis's; a machine's own clock only dates new ids."""
    offset = (row["now"] - machine).total_seconds()
    if abs(offset) > CLOCK_SECONDS + round_trip_seconds:
        return warning(
            "clock",
            f"PostgreSQL's clock is {offset:+.1f} s from this machine's",
            "run NTP on both: pruning and windows by id are off by as much",
        )
    return ok("clock", "PostgreSQL's clock agrees with this machine's")


def judge_budget(row: Row, *, needed: int, processes: str) -> Finding:
    """Whether the server has room for what this configuration opens. Applications and other workers come on top."""
    usable, used = row["usable_connections"], row["connections"]
    text = f"{processes} open up to {needed} connections; the server has {usable} for all, {used} in use now"
    if needed > usable:
        return error(
            "connections", text, "lower concurrency or processes, raise max_connections, or put a pooler in between"
        )
    if needed > TIGHT_SHARE * usable:
        return warning(
            "connections", text, "leave room for the application and for a deploy, when old and new run side by side"
        )
    return ok("connections", text)
