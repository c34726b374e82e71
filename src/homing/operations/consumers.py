"""Consumers as people see them: what each has to do and who does it; retiring one, and bringing it back."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from homing.errors import Refused, UnknownId
from homing.ledger.actions import Person, Statements, keep_action
from homing.ledger.ledger import Ledger, Row
from homing.operations.overview import ConsumerState, ProcessState, read_consumers, read_processes
from homing.schema.statement import load

_HERE = "homing.operations"
ROUTES = load(_HERE, "routes")
RETIRE = load(_HERE, "retire")
RESTORE = load(_HERE, "restore")

OURS = ("tx", "after")
"""Modes of consumers that run in our workers; others are settled from outside."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One topic that a consumer gets, or got until somebody retired it."""

    topic: str
    queue: str
    job_name: str
    mode: str
    aliases: tuple[str, ...]
    registered_at: datetime
    retired_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Consumer:
    """One consumer: its routes, what is left to do for it, and the live processes whose code knows it, as `host:pid`."""

    name: str
    routes: tuple[Route, ...]
    unsettled: int
    overdue: int
    oldest_unsettled_seconds: float
    open_letters: int
    owners: tuple[str, ...]

    @property
    def retired_at(self) -> datetime | None:
        """Since when it gets no new events at all, because a person said so."""
        moments = [route.retired_at for route in self.routes]
        return max(at for at in moments if at) if moments and all(moments) else None

    @property
    def is_ours(self) -> bool:
        """Whether our workers are to run it; what nobody registered is taken for ours."""
        return not self.routes or any(route.mode in OURS for route in self.routes)

    @property
    def is_unowned(self) -> bool:
        """Whether there is, or will be, work for it and no live process that knows it."""
        gets_more = any(route.retired_at is None for route in self.routes)
        return self.is_ours and not self.owners and (gets_more or self.unsettled > 0)


def put_together(
    routes: Iterable[Row], states: Iterable[ConsumerState], processes: Iterable[ProcessState]
) -> tuple[Consumer, ...]:
    """Every consumer that has a route or something left to do, by name. Pure.

    A process that knows a consumer by an alias of its owns it, too.
    """
    found: dict[str, list[Route]] = {}
    for row in routes:
        found.setdefault(row["consumer"], []).append(_route(row))
    work = {state.consumer: state for state in states}
    former = {alias: name for name, theirs in found.items() for route in theirs for alias in route.aliases}
    owners: dict[str, list[str]] = {}
    for process in processes:
        if process.alive and process.role == "worker":
            for name in process.consumers:
                owners.setdefault(name, []).append(f"{process.host}:{process.pid}")
    return tuple(
        _consumer(name, found.get(name, ()), work.get(name), owners.get(name) or owners.get(former.get(name, "")) or ())
        for name in sorted({*found, *work})
    )


async def list_consumers(ledger: Ledger) -> tuple[Consumer, ...]:
    """Every consumer, by name."""
    return put_together(await ledger.fetch(ROUTES), await read_consumers(ledger), await read_processes(ledger))


def topics_of_nobody(topics: Iterable[str], consumers: Iterable[Consumer]) -> list[str]:
    """Those of `topics` that no consumer gets any more. Pure."""
    routed = {route.topic for each in consumers for route in each.routes if route.retired_at is None}
    return [topic for topic in topics if topic not in routed]


async def retire(ledger: Ledger, consumer: str, person: Person, *, topic: str | None = None) -> tuple[str, ...]:
    """Route no new events to a consumer, in one transaction that keeps who did it; the topics that it gets no more.

    What is open for it stays open. Raises `UnknownId` for a name without a route, `Refused` when it is retired already.
    """
    async with ledger.transaction() as transaction:
        topics = sorted(row["topic"] for row in await transaction.fetch(RETIRE, consumer=consumer, topic=topic))
        if not topics:
            await _explain(transaction, consumer, topic, "retired already")
        await keep_action(transaction, person, "retire", {"consumer": consumer, "topics": topics}, affected=len(topics))
    return tuple(topics)


async def restore(ledger: Ledger, consumer: str, person: Person, *, topic: str | None = None) -> dict[str, datetime]:
    """Route new events to a retired consumer again, likewise; its topics, and since when they had been retired.

    Events that were routed meanwhile have no delivery for it: that is what backfill is for.
    """
    async with ledger.transaction() as transaction:
        rows = await transaction.fetch(RESTORE, consumer=consumer, topic=topic)
        if not rows:
            await _explain(transaction, consumer, topic, "not retired")
        topics = {row["topic"]: row["retired_at"] for row in rows}
        subject = {"consumer": consumer, "topics": sorted(topics)}
        await keep_action(transaction, person, "restore", subject, affected=len(topics))
    return topics


async def _explain(where: Statements, consumer: str, topic: str | None, state: str) -> None:
    """Why no route was changed."""
    known = [row for row in await where.fetch(ROUTES) if row["consumer"] == consumer and topic in (None, row["topic"])]
    what = f"consumer {consumer!r}" if topic is None else f"consumer {consumer!r} of topic {topic!r}"
    if not known:
        raise UnknownId(f"no code ever registered {what}: `homing consumers list` shows those that are known")
    raise Refused(f"{what} is {state}; nothing was changed")


def _consumer(name: str, routes: Sequence[Route], work: ConsumerState | None, owners: Sequence[str]) -> Consumer:
    return Consumer(
        name=name,
        routes=tuple(routes),
        unsettled=0 if work is None else work.unsettled,
        overdue=0 if work is None else work.overdue,
        oldest_unsettled_seconds=0.0 if work is None else work.oldest_unsettled_seconds,
        open_letters=0 if work is None else work.open_letters,
        owners=tuple(owners),
    )


def _route(row: Row) -> Route:
    return Route(
        topic=row["topic"],
        queue=row["queue"],
        job_name=row["job_name"],
        mode=row["mode"],
        aliases=tuple(row["aliases"]),
        registered_at=row["registered_at"],
        retired_at=row["retired_at"],
    )
