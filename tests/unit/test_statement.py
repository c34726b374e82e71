"""SQL files and the spellings they are given for the drivers."""

import pytest

from homing.schema.statement import load, parse

SOURCE = """\
-- Take: what it is for.
-- :limit  rows
SELECT id::text, '100%' FROM jobs -- not :this
WHERE queue = :queue AND attempts < :limit OR (:limit = 0 AND queue <> :queue);
"""


def test_parameters_are_numbered_by_first_use() -> None:
    """Each name has one number; casts and comments hold no parameters."""
    statement = parse("take", SOURCE)
    assert statement.parameters == ("queue", "limit")
    assert "queue = $1 AND attempts < $2 OR ($2 = 0 AND queue <> $1)" in statement.numbered
    assert "id::text" in statement.numbered
    assert "this" not in statement.text
    assert not statement.text.endswith(";")


def test_percent_signs_survive_the_psycopg_spelling() -> None:
    """What is doubled for psycopg is single everywhere else."""
    statement = parse("take", SOURCE)
    assert "'100%%'" in statement.pyformat
    assert "queue = %(queue)s" in statement.pyformat
    assert "'100%'" in statement.numbered
    assert "'100%'" in statement.text


def test_the_contract_is_the_comment_on_top() -> None:
    """The words of a file are there to be shown."""
    assert parse("take", SOURCE).contract == "Take: what it is for.\n:limit  rows"


def test_arguments_come_in_the_order_of_their_numbers() -> None:
    """Values are given by name; a missing or a surplus one is an error that lists both."""
    statement = parse("take", SOURCE)
    assert statement.arguments({"limit": 5, "queue": "q"}) == ("q", 5)
    for wrong in ({"queue": "q"}, {"queue": "q", "limit": 5, "more": 1}):
        with pytest.raises(TypeError, match=r"take takes \['limit', 'queue'\]"):
            statement.arguments(wrong)


def test_a_file_is_read_once() -> None:
    """Statements are loaded when they are first used, and kept."""
    statement = load("homing.outbox", "record")
    assert load("homing.outbox", "record") is statement
    assert statement.parameters == ("events", "ledger")
    assert statement.name == "homing.outbox/sql/record.sql"


def test_a_missing_file_is_an_error() -> None:
    """A verb without a file fails where it is loaded."""
    with pytest.raises(FileNotFoundError):
        load("homing.outbox", "forget")
