"""Whatever stands in the ledger's rows: no command says anything that a terminal obeys, or more than a person can read."""

import json
from typing import Any

import pytest
from redis import Redis

from homing.cli.exits import Exit
from homing.config.settings import Settings
from tests.integration.commands import Commands
from tests.integration.poisoned import EVENT, PARKED, poison

MOST_SAID = 60_000
"""Characters that any list may say of a handful of rows."""

VERBS = (
    "status",
    "top --once --every 100ms",
    "events list",
    "events list --state unpublished",
    "events list --state parked",
    f"events show {EVENT}",
    f"events show {PARKED}",
    "consumers list",
    "workers list",
    "actions list",
    "deadletters list",
    "deadletters groups",
    "audit",
)


@pytest.fixture
def _poisoned(settings: Settings) -> None:
    poison(settings)


def obeyed(text: str) -> set[str]:
    """Control characters that a terminal would act upon; tabs and line ends are the program's own."""
    return {letter for letter in text if (ord(letter) < 32 and letter != "\n") or 0x7F <= ord(letter) < 0xA0}


@pytest.mark.usefixtures("_poisoned")
def test_no_row_breaks_a_terminal(command: Commands, redis_url: str, redis_prefix: str) -> None:
    """Every list and show ends with 0 (or 1, where it judges), says no control character and little, and JSON says all as valid JSON."""
    with Redis.from_url(redis_url) as client:
        client.hset(f"{redis_prefix}:plain:meta", "paused", "1")
    complaints: dict[str, Any] = {}
    for verb in VERBS:
        said = command(*verb.split())
        text = said.out + said.err
        if said.code not in (Exit.DONE, Exit.FOUND_WRONG) or obeyed(text) or len(text) > MOST_SAID:
            complaints[verb] = (said.code, obeyed(text), len(text), text[:300])
        assert "Traceback" not in text, verb
        told = command("--json", *verb.split())
        if obeyed(told.out):
            complaints[f"--json {verb}"] = obeyed(told.out)
        json.loads(told.out)
        assert verb.startswith("top") or "\N{REPLACEMENT CHARACTER}[31mred" in text, verb
    assert complaints == {}
    assert obeyed(command("events", "show", str(EVENT), "--payload").out) == set()
