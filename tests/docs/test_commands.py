"""The page of all commands is what the commands say."""

from homing.cli.exits import Exit
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
