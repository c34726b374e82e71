"""The command line: verbs, messages and exit codes, without servers."""

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from homing.cli.exits import Exit, exit_for
from homing.cli.main import main
from homing.errors import (
    ConfigurationError,
    MissingExtraError,
    RecordError,
    Refused,
    RegistrationError,
    SchemaError,
    ServerUnavailable,
    UnknownId,
    UnsuitableServer,
)

_APP = '''
from homing import Event, Homing

class OrderPlaced(Event, topic="order.placed"):
    order_id: int

app = Homing("shop", include=["{module}"])
orders = app.queue("orders")
not_an_app = 3

@orders.handler("confirm", on=OrderPlaced, at_least_once=True)
async def confirm(event: OrderPlaced) -> None:
    """Confirm."""
'''


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Run in an empty folder, and leave logging and the module path as they were."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def write_module(tmp_path: Path, name: str, text: str = _APP) -> str:
    """Write a module that the test may import, and return its name."""
    (tmp_path / f"{name}.py").write_text(text.replace("{module}", name))
    return name


def failure(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    """The exit code of a command and what it wrote to stderr; nothing may be on stdout."""
    code = main(arguments)
    printed = capsys.readouterr()
    assert printed.out == ""
    return code, printed.err


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigurationError("x"), 3),
        (SchemaError("x"), 3),
        (RegistrationError("x"), 3),
        (MissingExtraError("x", "redis"), 3),
        (ServerUnavailable("x"), 4),
        (UnsuitableServer("x"), 4),
        (Refused("x"), 5),
        (UnknownId("x"), 6),
        (RecordError("x"), 70),
        (ZeroDivisionError("x"), 70),
    ],
)
def test_errors_have_exit_codes(error: Exception, code: int) -> None:
    """Whoever starts a command can tell a wrong setting from a server that is away, and both from a mistake of ours."""
    assert exit_for(error) == code


def test_the_codes_are_the_documented_ones() -> None:
    """The set of exit codes is closed; scripts depend on it."""
    assert sorted(Exit) == [0, 1, 2, 3, 4, 5, 6, 70, 75, 76, 130, 143]


@pytest.mark.parametrize("arguments", [("frobnicate",), ("worker", "--queue"), ("migrate", "--to", "x"), ("--app",)])
def test_a_command_line_that_cannot_be_read_ends_with_2(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    """Unknown verbs, options and values are usage errors."""
    code, text = failure(capsys, *arguments)
    assert code == 2
    assert "Error: " in text


def test_from_without_sql_is_a_usage_error(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """`--from` only means something where statements are printed."""
    monkeypatch.setenv("DATABASE_URL", "postgresql://nowhere.invalid/x")
    code, text = failure(capsys, "migrate", "--from", "1")
    assert code == 2
    assert "it goes with --sql" in text


def test_a_wrong_setting_is_one_line_without_traceback(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A configuration error is a message for a person; -v adds where it came from."""
    monkeypatch.setenv("HOMING_LAESE", "30s")
    assert failure(capsys, "settings") == (3, "homing: unknown variable HOMING_LAESE: did you mean HOMING_LEASE?\n")
    code, text = failure(capsys, "-v", "settings")
    assert code == 3
    assert "Traceback" in text


def test_an_internal_error_shows_where(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """What nobody expected ends with 70 and a traceback, without being asked."""
    write_module(tmp_path, "app_that_breaks", "raise ZeroDivisionError('seven')\n")
    code, text = failure(capsys, "--app", "app_that_breaks:app", "check")
    assert code == 70
    assert "Traceback" in text
    assert text.endswith("homing: seven\n")


def test_settings_are_shown_masked_with_their_source(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`homing settings` prints value and source of each setting, and no password; --json prints the same for programs."""
    monkeypatch.setenv("DATABASE_URL", "postgresql://shop:s3cret@db.test/shop")
    assert main(["settings"]) == 0
    table = capsys.readouterr().out
    assert "s3cret" not in table
    assert "postgresql://shop:***@db.test/shop  DATABASE_URL" in table
    assert main(["--json", "settings"]) == 0
    lines = {line["name"]: line for line in json.loads(capsys.readouterr().out)}
    assert lines["lease"] == {"name": "lease", "value": "30s", "source": "default"}


def test_a_configuration_file_can_be_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """`--config` replaces homing.toml; one that is not there is refused."""
    (tmp_path / "homing.toml").write_text('lease = "40s"\n')
    (tmp_path / "other.toml").write_text('lease = "50s"\n')
    assert main(["--json", "--config", "other.toml", "settings"]) == 0
    lines = {line["name"]: line for line in json.loads(capsys.readouterr().out)}
    assert lines["lease"] == {"name": "lease", "value": "50s", "source": "other.toml"}
    assert failure(capsys, "--config", "missing.toml", "settings")[0] == 3


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        (None, "no app is named: give --app module:attribute, or set HOMING_APP"),
        ("shop.jobs", "app 'shop.jobs' has no form module:attribute"),
        ("nowhere_at_all.jobs:app", "there is no module 'nowhere_at_all'"),
        ("loaded_app:ap", "module loaded_app has no 'ap': did you mean app?"),
        ("loaded_app:not_an_app", "is int, not a Homing object"),
        ("empty_app:app", "it holds no Homing object at all"),
        ("needy_app:app", "importing needy_app failed, No module named 'not_installed_here'"),
    ],
)
def test_an_app_that_cannot_be_found_is_explained(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, place: str | None, expected: str
) -> None:
    """Each way to point at no app is told apart, and ends with 3."""
    write_module(tmp_path, "loaded_app")
    write_module(tmp_path, "empty_app", "")
    write_module(tmp_path, "needy_app", "import not_installed_here\n")
    code, text = failure(capsys, *(("--app", place) if place else ()), "check")
    assert code == 3
    assert expected in text


def test_check_lists_the_handlers(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """`homing check` prints what each handler promises, and ends with 0 where nothing is wrong."""
    write_module(tmp_path, "checked_app")
    (tmp_path / "pyproject.toml").write_text('[tool.homing]\napp = "checked_app:app"\n')
    assert main(["--json", "check"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "handlers": [
            {
                "consumer": "orders.confirm",
                "topic": "order.placed",
                "guarantee": "at least once",
                "attempts": "8",
                "horizon": "4m 14s",
                "time-out": "1m",
            }
        ],
        "notes": [],
        "problems": [],
    }
    assert main(["check"]) == 0
    assert "orders.confirm  order.placed  at least once  8" in capsys.readouterr().out


def test_check_says_what_node_workers_heed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A queue that may pause gets a note about Node workers that share it; the others get none, and nothing is wrong."""
    limited = "from datetime import timedelta\nfrom homing import RateLimit\n"
    limited += '\napp.queue("carrier", limit=RateLimit(4, per=timedelta(seconds=1)))\n'
    limited += '\napp.queue("asked", throttle="queue")\n\napp.queue("alone", limit=RateLimit(1, per=timedelta(hours=1)), throttle="job")\n'
    write_module(tmp_path, "limited_app", _APP + limited)
    assert main(["--json", "--app", "limited_app:app", "check"]) == 0
    asked, carrier = json.loads(capsys.readouterr().out)["notes"]
    assert carrier.startswith("queue carrier starts at most 4 jobs per 1s and pauses after Throttled")
    assert asked.startswith("queue asked pauses after Throttled")
    assert main(["--app", "limited_app:app", "check"]) == 0
    assert "a Node worker that shares it heeds this only with a `limiter` set" in capsys.readouterr().out


def test_check_says_that_node_workers_know_no_keys(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A queue with limits by key gets a note."""
    write_module(tmp_path, "keyed_app", _APP + '\napp.queue("tenants", limit_key="tenant_id")\n')
    assert main(["--app", "keyed_app:app", "check"]) == 0
    assert "queue tenants limits by key: a Node worker that shares it knows no keys" in capsys.readouterr().out


def test_check_shows_what_is_promised_of_other_systems(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Consumers that live elsewhere are listed with their mode, and a queue that they share with handlers is told of."""
    others = (
        '\napp.queue("labels").consumer("print", on=OrderPlaced, foreign=True)'
        '\norders.consumer("export", on=OrderPlaced, elsewhere=True)\n'
    )
    write_module(tmp_path, "others_app", _APP + others)
    assert main(["--json", "--app", "others_app:app", "check"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert {line["consumer"]: line["guarantee"] for line in shown["handlers"]} == {
        "orders.confirm": "at least once",
        "labels.print": "foreign",
        "orders.export": "elsewhere",
    }
    assert [note.split(":")[0] for note in shown["notes"]] == [
        "queue orders has handlers here and orders.export in another system"
    ]


def test_check_ends_with_1_for_an_event_without_a_route(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """An event class that nobody consumes is found by `homing check`, by name."""
    forgotten = '\nclass OrderLost(Event, topic="order.lost"):\n    order_id: int\n'
    write_module(tmp_path, "forgetful_app", _APP + forgotten)
    assert main(["--app", "forgetful_app:app", "check"]) == 1
    assert "nobody consumes 'order.lost' (forgetful_app.OrderLost)" in capsys.readouterr().err


def test_check_ends_with_1_for_two_handlers_with_one_name(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A declaration that is refused at import is found wrong, not unusable: that is what `check` is for."""
    second = '\n@orders.handler("confirm", on=OrderPlaced, at_least_once=True)\nasync def again(event: OrderPlaced) -> None: ...\n'
    write_module(tmp_path, "doubled_app", _APP + second)
    assert main(["--app", "doubled_app:app", "check"]) == 1
    assert "two handlers are called 'orders.confirm'" in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["worker", "relay"])
def test_an_engine_that_is_not_built_is_refused_at_start(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, verb: str
) -> None:
    """Without REDIS_URL a worker or relay says what to set, and starts nothing."""
    write_module(tmp_path, "engineless_app")
    code, text = failure(capsys, "--app", "engineless_app:app", verb)
    assert code == 3
    assert "declared but not built yet: set REDIS_URL" in text


def test_a_queue_that_does_not_exist_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A misspelt queue would be served by nobody: the worker does not start."""
    write_module(tmp_path, "queued_app")
    code, text = failure(capsys, "--app", "queued_app:app", "worker", "--queues", "ordres:4")
    assert code == 3
    assert "app 'shop' has no queue 'ordres': did you mean orders?" in text


def test_sql_is_printed_without_a_database(capsys: pytest.CaptureFixture[str]) -> None:
    """`homing migrate --sql --grant-to` prints all of it and needs no server."""
    assert main(["migrate", "--sql", "--grant-to", "shop_app"]) == 0
    printed = capsys.readouterr().out
    assert "CREATE TABLE homing.deliveries" in printed
    assert 'GRANT USAGE ON SCHEMA homing TO "shop_app";' in printed


def test_an_unreachable_database_ends_with_4(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, unused_tcp_port: int
) -> None:
    """A server that is not there is told apart from a wrong setting, with the address and without the password."""
    monkeypatch.setenv("DATABASE_URL", f"postgresql://shop:s3cret@127.0.0.1:{unused_tcp_port}/shop")
    code, text = failure(capsys, "migrate")
    assert code == 4
    assert f"PostgreSQL does not answer at postgresql://shop:***@127.0.0.1:{unused_tcp_port}/shop" in text
    assert "s3cret" not in text
