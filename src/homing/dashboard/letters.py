"""Which dead letters an address or a form chooses, read strictly and written back. Pure."""

from dataclasses import replace
from enum import Enum
from typing import get_args

from homing.dashboard.query import Query, bad
from homing.deadletters.deadletters import Kind
from homing.deadletters.filters import Filter

KINDS: tuple[str, ...] = get_args(Kind)

MOST_IDS = 1_000
"""Letters that are chosen one by one, at most: more are chosen by a filter."""

LAST_LETTER = 2**63 - 1


class Closed(Enum):
    """Which letters a list shows."""

    OPEN = "open"
    CLOSED = "closed"
    ALL = "all"

    @property
    def is_open(self) -> bool | None:
        """The same as the operation takes it."""
        return {Closed.OPEN: True, Closed.CLOSED: False, Closed.ALL: None}[self]


def read_filter(query: Query) -> Filter:
    """The letters that are meant; every given condition must fit."""
    kind = query.text("kind")
    if kind is not None and kind not in KINDS:
        raise bad("kind", kind, f"it is none of {', '.join(KINDS)}")
    return Filter(
        consumer=query.text("consumer"),
        queue=query.text("queue"),
        kind=kind,
        fingerprint=query.text("fingerprint"),
        error_class=query.text("error_class"),
        error_text=query.text("error_text"),
        since=query.moment("since"),
        until=query.moment("until"),
        ids=read_ids(query) or None,
    )


def read_ids(query: Query) -> tuple[int, ...]:
    """Letters that were chosen one by one."""
    given = query.all("id")
    if len(given) > MOST_IDS:
        raise bad("id", str(len(given)), f"at most {MOST_IDS:,} letters are chosen one by one: say a filter")
    return tuple(dict.fromkeys(read_letter("id", text) for text in given))


def read_letter(name: str, text: str) -> int:
    """The id of a letter."""
    if not (text.isascii() and text.isdecimal() and len(text) < 20 and 0 < int(text) <= LAST_LETTER):
        raise bad(name, text, "it is no id of a letter, which is a whole number")
    return int(text)


def given(chosen: Filter) -> dict[str, object]:
    """The filter as an address carries it: a moment in full, so that it is the same one whenever it is read."""
    values = chosen.as_json()
    if chosen.ids is not None:
        del values["ids"]
        values["id"] = list(chosen.ids)
    return values


def fields(chosen: Filter) -> list[tuple[str, str]]:
    """The filter as the hidden fields of a form."""
    return [
        (name, str(one))
        for name, value in given(chosen).items()
        for one in (value if isinstance(value, list) else [value])
    ]


def options(chosen: Filter) -> list[str]:
    """The filter as `homing redrive` takes it."""
    words = [
        word
        for name, value in fields(chosen)
        if name != "everything"
        for word in (f"--{name.replace('_', '-')}", value)
    ]
    return [*words, "--everything"] if chosen.everything else words


def listing_options(chosen: Filter) -> list[str]:
    """The filter as commands take it that list letters: those know no ids."""
    return options(replace(chosen, ids=None))


def describe(chosen: Filter) -> str:
    """The filter in words."""
    if chosen.everything or chosen.empty:
        return "every open letter"
    words = [f"{name.replace('_', ' ')} {value}" for name, value in given(chosen).items() if name != "id"]
    if chosen.ids is not None:
        words.append(f"{len(chosen.ids):,} chosen ones")
    return ", ".join(words)
