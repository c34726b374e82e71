"""What a page offers as a command is one: the command line takes every word of it."""

import html
import re
import shlex
from collections.abc import Iterator
from typing import Any

import httpx
import typer

from homing.cli.main import commands
from tests.integration.buried import bury
from tests.integration.dashboard.conftest import send
from tests.integration.dashboard.test_places import record
from tests.integration.dashboard.test_schedule_pages import written
from tests.integration.dashboard.world import DEAD_JOB, EVENT, PENDING_JOB, QUEUE, World

FILTER = "consumer=pay.capture&queue=pay&kind=failed&fingerprint=f1&error_class=OutOfOrder&error_text=503&since=2d&until=2026-01-31"


def commands_of(page: httpx.Response) -> Iterator[str]:
    """Every command that a page offers to copy."""
    for text in re.findall(r'data-copy="(homing [^"]+)"', page.text):
        yield html.unescape(text)
    yield from map(html.unescape, re.findall(r"<code>(homing [a-z][^<]+)</code>", page.text))


def complaint(command: str) -> str | None:
    """What the command line has against a command, which it reads and does not run; what is still to be given (a reason, which events) is nothing."""
    words = shlex.split(command)[1:]
    reader: Any = typer.main.get_command(commands)
    name = "homing"
    context = reader.make_context(name, [], resilient_parsing=True)
    while hasattr(reader, "resolve_command"):
        name, reader, words = reader.resolve_command(context, words)
        context = reader.make_context(name, [], parent=context, resilient_parsing=True)
    try:
        reader.make_context(name, words, parent=context)
    except Exception as error:  # noqa: BLE001 - of a class that typer keeps to itself
        text = error.format_message() if hasattr(error, "format_message") else repr(error)
        return None if "'--why'" in text or "Missing argument 'ID…'" in text else f"{command}: {text}"
    return None


async def test_every_command_that_is_shown_is_one(admin: httpx.AsyncClient, world: World) -> None:
    """On pages with and without filters, and before deeds: nothing that is copied is refused; what is left out is asked for (a reason, which events)."""
    letters = await bury(world.sql, 2, consumer="pay.capture")
    parked = await record(world, "order.placed", error="broken")
    await written(world)
    pages = [
        "/",
        "/queues",
        f"/queues/{QUEUE}",
        f"/jobs?queue={QUEUE}&state=failed&name=do",
        f"/jobs/{DEAD_JOB}",
        f"/events/{EVENT}",
        "/outbox?state=parked&topic=order.placed&since=2d",
        *(
            f"/deadletters{view}?{query}"
            for view in ("", "/list", "/redrive")
            for query in (FILTER, f"id={letters[0]}", "")
        ),
        "/deadletters/list?closed=all",
        "/deadletters/list?closed=closed",
        f"/deadletters/{letters[0]}",
        "/deadletters/campaigns",
        f"/schedules?queue={QUEUE}",
        f"/flows?queue={QUEUE}",
        "/workers?since=day",
        "/actions?actor=ada&action=redrive&since=2d",
    ]
    shown = [(page, command) for page in pages for command in commands_of(await admin.get(page))]
    asked: list[tuple[str, dict[str, str]]] = [
        ("/do/retry", {"id": DEAD_JOB}),
        ("/do/cancel", {"id": PENDING_JOB}),
        ("/do/retry", {"all": "yes", "queue": QUEUE}),
        ("/redrive", {"letter": str(world.letter)}),
        ("/outbox/release", {"id": str(parked)}),
        ("/deadletters/dismiss", {"id": str(letters[0])}),
        *((f"/schedules/{verb}", {"queue": QUEUE, "name": "nightly"}) for verb in ("run", "pause", "resume", "remove")),
        *((f"/queues/{QUEUE}/{verb}", {}) for verb in ("drain", "clean-failed", "obliterate")),
    ]
    for path, fields in asked:
        answer = await send(admin, path, **fields)
        assert answer.status_code == 200, (path, answer.text)
        shown += [(path, command) for command in commands_of(answer)]
    assert [wrong for _, command in shown if (wrong := complaint(command)) is not None] == []
    assert all(map(complaint, ("homing deadletters groups --id 1", "homing redrive 1", "homing queues clean work")))
    assert {page for page, _ in shown} == {*pages, *(path for path, _ in asked)}
