"""The search of every page: an id leads to its case file, anything else to the events or deliveries that fit."""

import re
import shlex
from dataclasses import dataclass, field
from uuid import UUID

from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse, Response

from homing.dashboard.query import bad
from homing.dashboard.visit import Visit, page
from homing.errors import Refused, ServerUnavailable, UnknownId
from homing.ids import DeliveryKey, JobId, is_consumer_name
from homing.operations.events import show_event
from homing.operations.jobs import find_jobs
from homing.operations.search import OUTCOMES, Wanted, search_deliveries, search_events

_TRACE = re.compile(r"[0-9a-f]{32}")
_PATH = re.compile(r"[A-Za-z_][\w-]*(?:\.[\w-]+)*")
_WORDS = {"trace", "topic", "order", "consumer", "outcome"}

_DEEPEST = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What was typed: `plain` is a word without a sign; `consumer` looks for deliveries, the rest for events."""

    plain: str | None = None
    consumer: str | None = None
    outcome: str | None = None
    wanted: Wanted = field(default_factory=Wanted)


async def search(visit: Visit) -> Response:
    """Lead to the one thing that is meant, or show what fits."""
    text = visit.query.text("q")
    if text is None:
        return visit.page("search.html", search="", events=None, deliveries=None, consumer=None, place=None)
    asked = read(text)
    if asked.plain is not None and (place := await _place(visit, asked.plain)) is not None:
        return RedirectResponse(place, 303)
    if asked.consumer is not None:
        return await _deliveries(visit, text, asked)
    wanted = asked.wanted
    if asked.plain is not None:
        is_trace = _TRACE.fullmatch(asked.plain) is not None
        wanted = Wanted(trace_id=asked.plain) if is_trace else Wanted(aggregate_id=asked.plain)
    events = await search_events(visit.ledger, wanted, after=visit.query.uuid("after"))
    return visit.page("search.html", search=text, events=events, deliveries=None, consumer=None, place=None)


def read(text: str) -> Asked:
    """What was typed, word by word: `trace:…`, `topic:…`, `order:…`, `consumer:…` with `outcome:…`, `a.b=value`, or an id. Pure.

    Raises a 400 for what cannot be read, or cannot be asked together.
    """
    try:
        parts = shlex.split(text)
    except ValueError:
        raise bad("q", text, "a quotation mark is not closed") from None
    found: dict[str, str] = {}
    path: tuple[str, ...] | None = None
    plain: list[str] = []
    for part in parts:
        name, sign, value = part.partition(":")
        field_, equals, value_ = part.partition("=")
        if sign and name in _WORDS and value:
            found[name] = value
        elif equals and _PATH.fullmatch(field_) and path is None and field_.count(".") < _DEEPEST:
            path, found["value"] = tuple(field_.removeprefix("payload.").split(".")), value_
        else:
            plain.append(part)
    if len(plain) > 1 or (plain and (found or path)):
        raise bad("q", text, "give one id, or words such as trace:…, consumer:…, topic:… and orderId=…")
    return _asked(text, found, path, plain[0] if plain else None)


def _asked(text: str, found: dict[str, str], path: tuple[str, ...] | None, plain: str | None) -> Asked:
    consumer, outcome = found.get("consumer"), found.get("outcome")
    if outcome is not None and outcome not in OUTCOMES:
        raise bad("q", text, f"outcome is one of {', '.join(OUTCOMES)}")
    if consumer is not None and not is_consumer_name(consumer):
        raise bad("q", text, "a consumer is named as in payments.capture")
    if (outcome and not consumer) or (consumer and (path or set(found) - {"consumer", "outcome"})):
        raise bad("q", text, "consumer:… and outcome:… are asked together, and with nothing else")
    wanted = Wanted(
        topic=found.get("topic"),
        aggregate_id=found.get("order"),
        trace_id=found.get("trace"),
        path=path,
        value=found.get("value"),
    )
    return Asked(plain=plain, consumer=consumer, outcome=outcome, wanted=wanted)


async def _place(visit: Visit, plain: str) -> str | None:
    """The page of the job or event with this id, where there is one."""
    if DeliveryKey.parse(plain) is not None:
        return visit.job(plain)
    try:
        event_id = UUID(plain)
    except ValueError:
        return await _direct_job(visit, plain)
    if _TRACE.fullmatch(plain):
        return None
    try:
        await show_event(visit.ledger, event_id)
    except UnknownId:
        return None
    return visit.url(f"/events/{event_id}")


async def _direct_job(visit: Visit, plain: str) -> str | None:
    if _TRACE.fullmatch(plain):
        return None
    try:
        places = await find_jobs(visit.ledger, visit.engine, [JobId(plain)])
    except Refused:  # several queues have it: its case file asks which one is meant
        return visit.job(plain)
    except ServerUnavailable:  # the ledger may know it all the same, as the id of an order
        return None
    return visit.job(plain, places[JobId(plain)]) if JobId(plain) in places else None


async def _deliveries(visit: Visit, text: str, asked: Asked) -> Response:
    if asked.consumer is None:
        raise HTTPException(400, "consumer:… is missing")
    deliveries = await search_deliveries(
        visit.ledger, asked.consumer, outcome=asked.outcome, after=_read_place(visit.query.text("after"))
    )
    place = None if deliveries.after is None else "/".join(map(str, deliveries.after))
    return visit.page(
        "search.html", search=text, events=None, deliveries=deliveries, consumer=asked.consumer, place=place
    )


def _read_place(text: str | None) -> tuple[UUID, str] | None:
    if text is None:
        return None
    event, _, consumer = text.partition("/")
    try:
        return UUID(event), consumer
    except ValueError:
        raise bad("after", text, "it is no place in this list: take it from the page before") from None


ROUTES = (page("/search", search),)
