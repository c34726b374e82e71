"""`homing consumers`: who gets which events, what is left to do for them, and who does it."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from homing.cli.acting import confirm, person
from homing.cli.ledgers import open_ledger
from homing.cli.output import show_json, show_list, show_text
from homing.cli.session import session_of
from homing.cli.words import age, moment, name, number
from homing.config.settings import Settings
from homing.harmless import clean_line
from homing.ledger.actions import Person
from homing.operations.consumers import Consumer, list_consumers, restore, retire, topics_of_nobody

consumers_verbs = typer.Typer(no_args_is_help=True, help="Consumers: look at them, retire them.", rich_markup_mode=None)

_COLUMNS = ("consumer", "state", "mode", "queue", "unsettled", "overdue", "oldest", "letters", "owned by", "topics")

NameArgument = Annotated[str, typer.Argument(help="The consumer, as in mail.send.", metavar="QUEUE.JOB")]
TopicOption = Annotated[str | None, typer.Option("--topic", help="For this topic alone.")]
WhyOption = Annotated[str, typer.Option("--why", help="The reason; it is kept with what is done.")]
YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask.")]


@consumers_verbs.command("list")
def list_verb(context: typer.Context) -> None:
    """List consumers: what is left to do for each, and the live processes that know it."""
    session = session_of(context)
    found = asyncio.run(_list(session.settings()))
    if session.json:
        show_json([_as_json(consumer) for consumer in found])
    else:
        show_list(_COLUMNS, [_cells(consumer) for consumer in found])


@consumers_verbs.command("retire")
def retire_verb(
    context: typer.Context, consumer: NameArgument, *, why: WhyOption, topic: TopicOption = None, yes: YesOption = False
) -> None:
    """Route no new events to a consumer, also when its code registers again. What is open for it stays open and runs."""
    session = session_of(context)
    settings = session.settings()
    confirm(f"Route no new events to {name(consumer)}? They will have no delivery for it.", yes=yes)
    topics, consumers = asyncio.run(_retire(settings, consumer, topic, person(why)))
    (left,) = (each for each in consumers if each.name == consumer)
    alone = topics_of_nobody(topics, consumers)
    if session.json:
        told = {"retired": consumer, "topics": topics, "topics_of_nobody": alone}
        show_json(told | {"unsettled": left.unsettled, "owners": left.owners})
        return
    show_text(f"{name(consumer)} gets no new events of {', '.join(map(name, topics))}")
    if alone:
        show_text(f"nobody subscribes to {', '.join(map(name, alone))} now: their events wait until somebody does")
    if left.unsettled:
        show_text(f"{number(left.unsettled)} deliveries are open for it and stay so: let them run, or cancel them")
    if left.owners:
        show_text(f"its code still runs in {len(left.owners)} processes")


@consumers_verbs.command("restore")
def restore_verb(
    context: typer.Context, consumer: NameArgument, *, why: WhyOption, topic: TopicOption = None, yes: YesOption = False
) -> None:
    """Route new events to a retired consumer again. Those that were routed meanwhile are for `homing backfill`."""
    session = session_of(context)
    settings = session.settings()
    confirm(f"Route new events to {name(consumer)} again?", yes=yes)
    topics = asyncio.run(_restore(settings, consumer, topic, person(why)))
    if session.json:
        show_json({"restored": consumer, "topics": topics})
        return
    for each, since in topics.items():
        show_text(f"{name(consumer)} gets new events of {name(each)} again; it has missed those since {moment(since)}")


async def _list(settings: Settings) -> tuple[Consumer, ...]:
    async with open_ledger(settings, "consumers list") as ledger:
        return await list_consumers(ledger)


async def _retire(
    settings: Settings, consumer: str, topic: str | None, who: Person
) -> tuple[tuple[str, ...], tuple[Consumer, ...]]:
    async with open_ledger(settings, "consumers retire") as ledger:
        topics = await retire(ledger, consumer, who, topic=topic)
        return topics, await list_consumers(ledger)


async def _restore(settings: Settings, consumer: str, topic: str | None, who: Person) -> Mapping[str, Any]:
    async with open_ledger(settings, "consumers restore") as ledger:
        return await restore(ledger, consumer, who, topic=topic)


def _cells(consumer: Consumer) -> Sequence[str]:
    return (
        name(consumer.name),
        state_of(consumer),
        ", ".join(sorted({route.mode for route in consumer.routes})),
        ", ".join(sorted({name(route.queue) for route in consumer.routes})),
        number(consumer.unsettled),
        number(consumer.overdue),
        age(consumer.oldest_unsettled_seconds),
        number(consumer.open_letters),
        owners_of(consumer),
        clean_line(", ".join(route.topic for route in consumer.routes)),
    )


def state_of(consumer: Consumer) -> str:
    """Whether new events go to it: to all of its topics, to some, or to none any more."""
    if not consumer.routes:
        return "unknown"
    if consumer.retired_at is not None:
        return "retired"
    return "partly retired" if any(route.retired_at for route in consumer.routes) else "active"


def owners_of(consumer: Consumer) -> str:
    """Which live processes know it, in a few words."""
    if not consumer.is_ours:
        return "another system"
    if not consumer.owners:
        return "nobody"
    more = len(consumer.owners) - 2
    return clean_line(", ".join(consumer.owners[:2])) + (f" and {more} more" if more > 0 else "")


def _as_json(consumer: Consumer) -> Mapping[str, Any]:
    return {
        "consumer": consumer.name,
        "state": state_of(consumer),
        "retired_at": consumer.retired_at,
        "unsettled": consumer.unsettled,
        "overdue": consumer.overdue,
        "oldest_unsettled_seconds": consumer.oldest_unsettled_seconds,
        "open_letters": consumer.open_letters,
        "owners": consumer.owners,
        "unowned": consumer.is_unowned,
        "routes": [
            {
                "topic": route.topic,
                "queue": route.queue,
                "job_name": route.job_name,
                "mode": route.mode,
                "aliases": route.aliases,
                "registered_at": route.registered_at,
                "retired_at": route.retired_at,
            }
            for route in consumer.routes
        ],
    }
