"""What pages are made of: how values are read, shown and hidden, and what keeps the door closed."""

import hashlib
import re
from importlib.resources import files
from pathlib import Path

import pytest
from starlette.exceptions import HTTPException

from homing.dashboard import sparks, words
from homing.dashboard.access import Access, Identity
from homing.dashboard.app import check_prefix, check_trace_url
from homing.dashboard.masking import MASK, Masks
from homing.dashboard.query import Query
from homing.dashboard.serving import require_closed
from homing.dashboard.users import add_user, make_user, read_users
from homing.errors import ConfigurationError
from homing.ledger.actions import Role
from homing.queue.browse import JobState

LOCAL = Access(local=Identity("ada@desk", Role.ADMIN))
CLOSED = Access(token="t" * 20)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.7", "ops.example.com", ""])  # noqa: S104 - that is the point
def test_others_reach_it_only_where_they_show_who_they_are(host: str) -> None:
    """An address beyond this machine is refused without users, token or sign-on."""
    with pytest.raises(ConfigurationError, match="can be reached from elsewhere"):
        require_closed(host, LOCAL)
    require_closed(host, CLOSED)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "[::1]", "localhost", "127.9.9.9"])
def test_this_machine_may_look(host: str) -> None:
    """A loopback address needs nobody to log in."""
    require_closed(host, LOCAL)


def test_the_way_in_is_said() -> None:
    """No way in at all, two that contradict each other, and secrets that are guessed are refused at the start."""
    with pytest.raises(ConfigurationError, match="give it users, a token or a sign_on"):
        Access()
    with pytest.raises(ConfigurationError, match="`local` opens it"):
        Access(token="t" * 20, local=Identity("ada", Role.ADMIN))
    with pytest.raises(ConfigurationError, match="the token of the dashboard has 5 characters"):
        Access(token="short")
    with pytest.raises(ConfigurationError, match="the secret of the dashboard has 5 characters"):
        Access(token="t" * 20, secret="short")


@pytest.mark.parametrize(
    ("lines", "error"),
    [
        ("ada:admin", "line 1: what user 'ada' has is no argon2 hash"),
        ("# a note\n\nada:boss:x", "line 3 is no user: write name:role:hash, the role one of viewer, operator, admin"),
        ("a b:admin:x", "line 1 is no user"),
        ("ada:admin:{hash}\nada:viewer:{hash}", "line 2: there are two users 'ada'"),
    ],
)
def test_a_file_of_users_is_read_strictly(tmp_path: Path, lines: str, error: str) -> None:
    """A line that names nobody stops the start, with its number."""
    file = tmp_path / "users"
    file.write_text(lines.replace("{hash}", make_user("x", Role.VIEWER, "twelve chars").password_hash))
    with pytest.raises(ConfigurationError, match=error):
        read_users(file)


def test_whoever_dies_while_a_user_is_added_leaves_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file of users changes whole or not at all, and nobody else may read it, whatever it was like before."""
    file, link = tmp_path / "users", tmp_path / "link"
    add_user(file, "ada", Role.ADMIN, "twelve chars")
    file.chmod(0o644)
    link.symlink_to(file)
    add_user(link, "bob", Role.VIEWER, "twelve chars")
    assert (link.is_symlink(), file.stat().st_mode & 0o777, set(read_users(file))) == (True, 0o600, {"ada", "bob"})

    def die(_: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("os.fsync", die)
    with pytest.raises(KeyboardInterrupt):
        add_user(file, "eve", Role.VIEWER, "twelve chars")
    assert (set(read_users(file)), {each.name for each in tmp_path.iterdir()}) == ({"ada", "bob"}, {"users", "link"})


def test_a_user_needs_a_name_and_a_password() -> None:
    """Names that would break the file and passwords that are guessed are refused."""
    with pytest.raises(ConfigurationError, match="is no user name"):
        make_user("a:b", Role.VIEWER, "twelve chars")
    with pytest.raises(ConfigurationError, match="take 12 or more"):
        make_user("ada", Role.VIEWER, "short")


@pytest.mark.parametrize(
    ("read", "value"),
    [
        (lambda query: query.text("x"), "a" * 301),
        (lambda query: query.text("x"), "a\x00b"),
        (lambda query: query.text("x"), "a\ufffdb"),
        (lambda query: query.number("x"), "0"),
        (lambda query: query.number("x"), "-1"),
        (lambda query: query.number("x"), "٣"),
        (lambda query: query.number("x"), "9" * 19),
        (lambda query: query.choice("x", JobState), "sleeping"),
        (lambda query: query.uuid("x"), "not-an-id"),
        (lambda query: query.moment("x"), "yesterday"),
        (lambda query: query.moment("x"), "99999999999d"),
        (lambda query: query.seconds("x"), "0s"),
        (lambda query: query.seconds("x"), "fast"),
    ],
)
def test_what_makes_no_sense_is_a_bad_request(read: object, value: str) -> None:
    """Every way of reading a value refuses what it cannot be, and names it."""
    with pytest.raises(HTTPException, match=r"x=") as refused:
        read(Query([("x", value)]))  # type: ignore[operator] # the ways of reading have different types
    assert refused.value.status_code == 400


def test_values_are_read() -> None:
    """What is left out or empty is nothing; the first of several values counts; a moment has a zone."""
    query = Query([("state", "failed"), ("n", "7"), ("n", "8"), ("e", ""), ("at", "2026-01-31T12:00"), ("d", "1h30m")])
    assert query.choice("state", JobState) is JobState.FAILED
    assert (query.number("n"), query.all("n"), query.text("e"), query.text("none")) == (7, ["7", "8"], None, None)
    assert str(query.moment("at")) == "2026-01-31 12:00:00+00:00"
    assert query.seconds("d") == 5400


def test_secrets_are_hidden_by_the_names_of_their_fields() -> None:
    """At any depth, however they are written; fields of the settings, too; what is no JSON is not shown at all."""
    masks = Masks(["e-mail"])
    payload = (
        '{"total": 7, "card_number": "4242", "user": [{"apiKey": {"a": 1}, "eMail": "a@b", "Authorization": "x"}]}'
    )
    assert masks.read(payload) == {
        "total": 7,
        "card_number": MASK,
        "user": [{"apiKey": MASK, "eMail": MASK, "Authorization": MASK}],
    }
    assert masks.read("password=hunter2") == "(no JSON: 16 characters, not shown)"
    assert "deep" not in str(masks.read("[" * 300 + '{"deep": 1}' + "]" * 300))
    assert masks.read("") is None


@pytest.mark.parametrize(
    ("seconds", "shown"), [(0, "0s"), (0.25, "250ms"), (59.6, "1m"), (3671, "1h 1m"), (90061, "1d 1h")]
)
def test_ages_are_short(seconds: float, shown: str) -> None:
    """Two units at the most."""
    assert words.age(seconds) == shown


def test_numbers_say_where_counting_stopped() -> None:
    """What the engine counts is exact; what the ledger counts up to a bound says so."""
    assert (words.number(1_234_567), words.bounded(99_999), words.bounded(100_000)) == (
        "1,234,567",
        "99,999",
        "100,000+",
    )


def test_text_that_cannot_be_seen_is_shown_as_such() -> None:
    """Control characters, and those that turn the reading direction around, are replaced in everything that is printed."""
    assert words.harmless("a\x1b[31m\u202eb\u200bc") == "a�[31m�b�c"
    assert words.harmless(7) == 7


@pytest.mark.parametrize(
    ("job_id", "path"),
    [
        ("0198f3a2-1.1.payments.capture", "/jobs/0198f3a2-1.1.payments.capture"),
        ("17", "/jobs/17"),
        ("..", "/job?id=.."),
        ("a/b?c#d", "/job?id=a%2Fb%3Fc%23d"),
        ("<script>", "/job?id=%3Cscript%3E"),
    ],
)
def test_every_id_has_an_address(job_id: str, path: str) -> None:
    """Ids that a path cannot carry travel behind the question mark."""
    assert words.job_path(job_id) == path


def test_a_sparkline_keeps_its_peak() -> None:
    """Many values are thinned to few, and the highest of them stays."""
    picture = sparks.spark([0.0] * 1000 + [9.0] + [1.0] * 1000, most=50)
    assert picture is not None
    assert (picture.peak, len(picture.line.split())) == (9.0, 50)
    assert sparks.spark([1.0]) is None
    assert sparks.spark([0.0, 0.0]) is not None


@pytest.mark.parametrize("prefix", ["ops", "/ops/", "//evil", "/a b", "/ops/../x", "/ops?x"])
def test_a_prefix_is_a_path(prefix: str) -> None:
    """What cannot stand before every address is refused at the start."""
    with pytest.raises(ConfigurationError, match="is no path"):
        check_prefix(prefix)
    assert (check_prefix("/ops/homing"), check_prefix("/"), check_prefix("")) == ("/ops/homing", "", "")


def test_a_trace_url_shows_a_trace() -> None:
    """It is an http address with the place for the id in it."""
    for url in ("https://traces.example.com/", "javascript:alert({trace_id})"):
        with pytest.raises(ConfigurationError, match="shows no trace"):
            check_trace_url(url)
    assert check_trace_url(None) is None


def test_the_vendored_script_is_what_it_says() -> None:
    """The copy of htmx is the published file, as the note beside it says."""
    assets = files("homing.dashboard").joinpath("assets")
    said = re.search(r"SHA-256 `([0-9a-f]{64})`", assets.joinpath("README.md").read_text(encoding="utf-8"))
    assert said is not None
    assert hashlib.sha256(assets.joinpath("htmx-2.0.11.min.js").read_bytes()).hexdigest() == said[1]
