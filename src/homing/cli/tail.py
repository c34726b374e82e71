"""`homing tail`: what happens, line by line, as it happens."""

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

import typer

from homing.cli.ledgers import open_ledger
from homing.cli.live import until_interrupted
from homing.cli.output import show_json, show_text
from homing.cli.session import session_of
from homing.cli.words import name
from homing.config.settings import Settings
from homing.harmless import clean_line
from homing.operations.following import Follower, Happening

_PAUSE_SECONDS = 1.0
_LONGEST_ID = 120
_LONGEST_TEXT = 200


def tail_verb(
    context: typer.Context,
    *,
    consumer: Annotated[str | None, typer.Option(help="Of this consumer alone.", metavar="QUEUE.JOB")] = None,
    queue: Annotated[str | None, typer.Option(help="Of this queue alone.")] = None,
) -> None:
    """Follow deliveries, deaths and deeds until Ctrl-C.

    A delivery is shown when it settles within a minute after its event was recorded; later ones are counted by `homing top`. Deaths are
    shown whenever they happen, and what people do unless a consumer or a queue is named.
    """
    session = session_of(context)
    settings = session.settings()
    with until_interrupted():
        asyncio.run(_follow(settings, consumer, queue, as_json=session.json))


async def _follow(settings: Settings, consumer: str | None, queue: str | None, *, as_json: bool) -> None:
    async with open_ledger(settings, "tail") as ledger:
        follower = Follower(ledger, consumer=consumer, queue=queue)
        while True:
            _tell(await follower.look(), as_json=as_json)
            await asyncio.sleep(_PAUSE_SECONDS)


def _tell(happened: Sequence[Happening], *, as_json: bool) -> None:
    for each in happened:
        if as_json:
            show_json(asdict(each))
        else:
            show_text(describe(each))
    sys.stdout.flush()


def describe(each: Happening) -> str:
    """One line, whatever the texts of the data hold."""
    words = (f"{each.at:%H:%M:%S}", f"{each.kind:<7}", name(each.subject), clean_line(each.id, _LONGEST_ID))
    return f"{'  '.join(words)}  {clean_line(each.text, _LONGEST_TEXT)}"
