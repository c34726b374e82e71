"""The page of all commands is what the commands say."""

from typing import Any

import typer

from homing.cli.exits import Exit
from homing.cli.main import commands
from tests.docs.commands_page import _MEANINGS, PAGE, page, verbs


def test_the_page_of_commands_is_up_to_date() -> None:
    """Renew it with `python -m tests.docs.commands_page` after a change of a verb, an option or a help text."""
    assert PAGE.read_text(encoding="utf-8") == page()


def test_every_verb_and_exit_code_is_on_the_page() -> None:
    """Each with words of its own."""
    text = PAGE.read_text(encoding="utf-8")
    missing = [verb for verb in verbs() if f"## {verb}" not in text]
    assert missing == []
    assert set(_MEANINGS) == set(Exit)


def test_the_list_of_verbs_shows_whole_sentences() -> None:
    """What a verb does is its first sentence, short enough for `homing --help` on a terminal of 80 columns."""
    verbs_and_groups: dict[str, Any] = typer.main.get_command(commands).commands  # type: ignore[attr-defined]
    room = 80 - 2 - 6 - max(map(len, verbs_and_groups))
    cut = [word for word, command in verbs_and_groups.items() if command.get_short_help_str(room).endswith("...")]
    assert cut == []
