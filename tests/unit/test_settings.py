"""Settings: order of sources, refusals, and what is shown of them."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from homing.config.settings import Retention, Settings, load_settings
from homing.durations import days, milliseconds, minutes, seconds
from homing.errors import ConfigurationError

DATABASE = "postgresql://shop:s3cret@db.test/shop"
REDIS = "redis://:s3cret@redis.test/2"


def load(tmp_path: Path, environ: dict[str, str] | None = None, **overrides: Any) -> Settings:
    """The settings of a process in an otherwise empty folder, with just these variables."""
    return load_settings(environ=environ or {}, directory=tmp_path, **overrides)


def refusal(tmp_path: Path, environ: dict[str, str], **overrides: Any) -> str:
    """The text of the error that these variables cause."""
    with pytest.raises(ConfigurationError) as caught:
        load(tmp_path, environ, **overrides)
    return str(caught.value)


def test_the_shipped_defaults(tmp_path: Path) -> None:
    """Each default is the number that the documentation promises."""
    settings = load(tmp_path)
    shown = settings.model_dump()
    assert shown == {
        "database_url": None,
        "listen_database_url": None,
        "redis_url": None,
        "engine": "postgres",
        "app": None,
        "env": "development",
        "prefix": None,
        "worker_queues": None,
        "worker_concurrency": 10,
        "worker_processes": 1,
        "attempt_timeout": seconds(60),
        "lease": seconds(30),
        "beat": seconds(5),
        "rescue": seconds(15),
        "shutdown_grace": seconds(25),
        "relay_batch": 500,
        "relay_poll": milliseconds(500),
        "look": seconds(1),
        "look_grace": seconds(10),
        "look_rate": 2000,
        "review": seconds(30),
        "retention": {"events": days(30), "inbox": days(30), "dead_letters": days(90)},
        "http_address": "127.0.0.1:9464",
        "dashboard_address": "127.0.0.1:9465",
        "dashboard_prefix": "",
        "dashboard_users": None,
        "dashboard_token": None,
        "dashboard_token_role": "viewer",
        "dashboard_secret": None,
        "dashboard_masked": (),
        "dashboard_trace_url": None,
        "trace_relation": "link",
        "log_level": "INFO",
        "log_format": "auto",
    }


def test_nearer_sources_win(tmp_path: Path) -> None:
    """Command line over variable over homing.toml over pyproject.toml over default, setting by setting."""
    (tmp_path / "pyproject.toml").write_text(
        '[tool.homing]\nlease = "61s"\nlook = "61s"\nbeat = "1s"\nrelay_batch = 61\n[tool.homing.retention]\ninbox = "61d"\n'
    )
    (tmp_path / "homing.toml").write_text('lease = "62s"\nlook = "62s"\nbeat = "2s"\n[retention]\nevents = "62d"\n')
    settings = load(tmp_path, {"HOMING_LEASE": "63s", "HOMING_LOOK": "63s"}, lease="64s")
    assert (settings.lease, settings.look, settings.beat) == (seconds(64), seconds(63), seconds(2))
    assert settings.relay_batch == 61
    assert settings.retention == Retention(events=days(62), inbox=days(61))
    sources = {line.name: line.source for line in settings.describe()}
    assert sources["lease"] == "command line"
    assert sources["look"] == "HOMING_LOOK"
    assert sources["beat"] == "homing.toml"
    assert sources["relay_batch"] == "[tool.homing] in pyproject.toml"
    assert sources["retention.inbox"] == "[tool.homing] in pyproject.toml"
    assert sources["rescue"] == "default"


def test_our_variable_wins_over_the_common_one(tmp_path: Path) -> None:
    """DATABASE_URL and REDIS_URL are read, and only where HOMING_… is absent."""
    both = {"DATABASE_URL": "postgresql://a/a", "HOMING_DATABASE_URL": "postgresql://b/b", "REDIS_URL": REDIS}
    settings = load(tmp_path, both)
    assert settings.database_url == "postgresql://b/b"
    assert settings.redis_url == REDIS


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("500ms", milliseconds(500)),
        ("30s", seconds(30)),
        ("15m", minutes(15)),
        ("14d", days(14)),
        ("1h30m", minutes(90)),
        ("PT30S", seconds(30)),
        ("P14D", days(14)),
        ("pt1h", minutes(60)),
    ],
)
def test_durations_are_read(tmp_path: Path, text: str, meant: timedelta) -> None:
    """A duration may be written short or in ISO 8601."""
    assert load(tmp_path, {"HOMING_LOOK": text}).look == meant


@pytest.mark.parametrize("text", ["30", "-5s", "-PT5S", "soon", "5 parsecs", "0s", "PX"])
def test_other_durations_are_refused_by_name(tmp_path: Path, text: str) -> None:
    """A number without a unit, a negative or an empty duration is refused with variable, value and remedy."""
    assert refusal(tmp_path, {"HOMING_LOOK": text}).startswith(f"HOMING_LOOK={text}: ")


def test_a_wait_may_be_zero(tmp_path: Path) -> None:
    """Zero is refused where a loop would spin, and accepted where it means "at once"."""
    assert load(tmp_path, {"HOMING_SHUTDOWN_GRACE": "0s"}).shutdown_grace == timedelta(0)


def test_a_number_in_toml_needs_a_unit(tmp_path: Path) -> None:
    """`lease = 30` in a file is refused, as it is in a variable."""
    (tmp_path / "homing.toml").write_text("lease = 30\n")
    assert refusal(tmp_path, {}).startswith("HOMING_LEASE=30 (homing.toml): 30 has no unit")


def test_a_lease_must_outlast_three_beats(tmp_path: Path) -> None:
    """The rule across two settings names both with their values, and says what would do."""
    text = refusal(tmp_path, {"HOMING_LEASE": "10s"})
    assert text.startswith("HOMING_LEASE is 10s and HOMING_BEAT is 5s: ")
    assert "raise HOMING_LEASE to 15s" in text
    assert load(tmp_path, {"HOMING_LEASE": "15s"}).lease == seconds(15)


def test_an_attempt_must_fit_into_the_grace_where_both_are_set(tmp_path: Path) -> None:
    """Two values of one person that contradict each other are an error that names both; the defaults, and one alone, are none."""
    text = refusal(tmp_path, {"HOMING_ATTEMPT_TIMEOUT": "60s", "HOMING_SHUTDOWN_GRACE": "25s"})
    assert text.startswith("HOMING_ATTEMPT_TIMEOUT is 1m and HOMING_SHUTDOWN_GRACE is 25s: ")
    assert "raise HOMING_SHUTDOWN_GRACE to 1m or lower HOMING_ATTEMPT_TIMEOUT to 25s" in text
    load(tmp_path, {"HOMING_ATTEMPT_TIMEOUT": "25s", "HOMING_SHUTDOWN_GRACE": "25s"})
    load(tmp_path, {"HOMING_ATTEMPT_TIMEOUT": "60s"})
    load(tmp_path, {"HOMING_SHUTDOWN_GRACE": "5s"})


def test_every_problem_is_named_at_once(tmp_path: Path) -> None:
    """Three wrong settings are one error with three lines, so that nobody mends them one by one."""
    text = refusal(tmp_path, {"HOMING_RELAY_BATCH": "0", "HOMING_LOG_FORMAT": "xml", "REDIS_URL": "http://x"})
    assert text.splitlines()[0] == "3 settings cannot be used:"
    assert "  HOMING_RELAY_BATCH=0: " in text
    assert "  HOMING_LOG_FORMAT=xml: it must be one of 'auto', 'json' or 'pretty'" in text
    assert "  HOMING_REDIS_URL=http://x (REDIS_URL): a Redis URL cannot start with 'http'" in text


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"HOMING_LAESE": "30s"}, "unknown variable HOMING_LAESE: did you mean HOMING_LEASE?"),
        ({"HOMING_RETENTION__EVENT": "1d"}, "HOMING_RETENTION__EVENT: did you mean HOMING_RETENTION__EVENTS?"),
        ({"HOMING_RETENTION": "1d"}, "unknown variable HOMING_RETENTION: did you mean HOMING_RETENTION__"),
        ({"HOMING_QQQ": "1"}, "unknown variable HOMING_QQQ: known are HOMING_APP, "),
    ],
)
def test_unknown_variables_are_refused(tmp_path: Path, environ: dict[str, str], expected: str) -> None:
    """A misspelt variable is never a silent default."""
    assert expected in refusal(tmp_path, environ)


def test_unknown_keys_in_files_and_overrides_are_refused(tmp_path: Path) -> None:
    """A misspelt key in a file is refused with the file's name, and so is a misspelt override."""
    assert "did you mean lease?" in refusal(tmp_path, {}, laese="30s")
    (tmp_path / "homing.toml").write_text('[retention]\nevnts = "1d"\n')
    assert refusal(tmp_path, {}) == ("unknown setting 'retention.evnts' (homing.toml): did you mean retention.events?")


def test_injected_variables_are_left_alone(tmp_path: Path) -> None:
    """What Kubernetes injects for a service called homing, and what the embedded servers read, is no mistake."""
    injected = ["SERVICE_HOST", "SERVICE_PORT", "SERVICE_PORT_HTTP", "PORT", "PORT_80_TCP_ADDR", "EMBEDDED_PG_BIN"]
    assert load(tmp_path, {f"HOMING_{name}": "x" for name in injected}).engine == "postgres"


def test_secrets_come_from_files(tmp_path: Path) -> None:
    """`NAME_FILE` names a file with the value, for ours and for the common names; a trailing line end is not part of it."""
    (tmp_path / "secret").write_text(DATABASE + "\n")
    for variable in ("DATABASE_URL_FILE", "HOMING_DATABASE_URL_FILE"):
        settings = load(tmp_path, {variable: str(tmp_path / "secret")})
        assert settings.database_url == DATABASE


def test_secret_files_that_cannot_work_are_refused(tmp_path: Path) -> None:
    """A missing file, and a value given both ways, are errors that name the variable."""
    text = refusal(tmp_path, {"DATABASE_URL_FILE": str(tmp_path / "missing")})
    assert text.startswith(f"DATABASE_URL_FILE={tmp_path}/missing cannot be read")
    assert "both set" in refusal(tmp_path, {"DATABASE_URL_FILE": "x", "DATABASE_URL": DATABASE})


def test_an_empty_variable_is_not_set(tmp_path: Path) -> None:
    """`REDIS_URL=` in a compose file means "no Redis", not an address that is empty."""
    assert load(tmp_path, {"REDIS_URL": "", "HOMING_LEASE": ""}).redis_url is None


def test_the_engine_follows_redis_url(tmp_path: Path) -> None:
    """The engine is redis exactly where REDIS_URL is set, unless it is named."""
    assert load(tmp_path, {"REDIS_URL": REDIS}).engine == "redis"
    assert load(tmp_path).engine == "postgres"
    assert load(tmp_path, {"HOMING_ENGINE": "redis"}).engine == "redis"
    assert "'redis' or 'postgres'" in refusal(tmp_path, {"HOMING_ENGINE": "mysql"})


def test_an_engine_that_cannot_run_is_refused(tmp_path: Path) -> None:
    """Asking for Redis says what is missing: an engine that is built, or its address."""
    with pytest.raises(ConfigurationError, match="'postgres' is declared but not built yet: set REDIS_URL"):
        _ = load(tmp_path).redis_dsn
    with pytest.raises(ConfigurationError, match="HOMING_ENGINE is 'redis' and REDIS_URL is not set"):
        _ = load(tmp_path, {"HOMING_ENGINE": "redis"}).redis_dsn
    with pytest.raises(ConfigurationError, match="DATABASE_URL is not set"):
        _ = load(tmp_path).asyncpg_dsn


@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+asyncpg", "postgresql+psycopg"])
def test_every_driver_gets_its_spelling(tmp_path: Path, scheme: str) -> None:
    """One DATABASE_URL in any usual spelling serves asyncpg, psycopg and SQLAlchemy."""
    settings = load(tmp_path, {"DATABASE_URL": f"{scheme}://u:p%40w@db.test:5433/shop?sslmode=require"})
    assert settings.asyncpg_dsn == "postgresql://u:p%40w@db.test:5433/shop?sslmode=require"
    assert settings.psycopg_dsn == settings.asyncpg_dsn == settings.listen_dsn
    assert settings.sqlalchemy_url == "postgresql+asyncpg://u:p%40w@db.test:5433/shop?ssl=require"


def test_listening_goes_past_the_pooler(tmp_path: Path) -> None:
    """HOMING_LISTEN_DATABASE_URL is used for LISTEN and for nothing else."""
    settings = load(tmp_path, {"DATABASE_URL": DATABASE, "HOMING_LISTEN_DATABASE_URL": "postgres://direct/shop"})
    assert settings.listen_dsn == "postgresql://direct/shop"
    assert settings.asyncpg_dsn == DATABASE


@pytest.mark.parametrize(
    "url",
    [
        "mysql://shop:s3cret@db.test/shop",
        "postgresql://shop:s3cret@db.test:port/shop",
        "postgresql://shop:s3c/ret@db.test/shop?password=s3cret",
        "host=db.test password=s3cret",
    ],
)
def test_refused_addresses_show_no_password(tmp_path: Path, url: str) -> None:
    """An error names the address that is wrong, without the password in it."""
    text = refusal(tmp_path, {"DATABASE_URL": url})
    assert "s3cret" not in text
    assert "s3c" not in text.replace("password=", "")
    assert "***" in text


def test_passwords_are_masked_wherever_settings_are_shown(tmp_path: Path) -> None:
    """Neither repr, str, description nor an error about something else shows a password."""
    environ = {"DATABASE_URL": DATABASE + "?sslpassword=s3cret", "REDIS_URL": REDIS}
    settings = load(tmp_path, environ)
    shown = f"{settings!r} {settings} {settings.describe()} " + refusal(tmp_path, environ | {"HOMING_BEAT": "20s"})
    assert "s3cret" not in shown
    assert "redis://:***@redis.test/2" in shown


@pytest.mark.parametrize("url", ["redis://host/one", "redis://host:0/1", "redis://host:99999", "localhost:6379"])
def test_redis_addresses_that_cannot_work_are_refused(tmp_path: Path, url: str) -> None:
    """A database that is no number, a port that does not exist and a missing scheme are found at start."""
    assert url in refusal(tmp_path, {"REDIS_URL": url})


def test_queues_are_chosen_with_their_concurrency(tmp_path: Path) -> None:
    """The choice may be text, a list or a table; what is wrong in it is quoted."""
    assert load(tmp_path, {"HOMING_WORKER_QUEUES": "payments, shipping:4"}).worker_queues == {
        "payments": None,
        "shipping": 4,
    }
    assert load(tmp_path, worker_queues=["a", "b:2"]).worker_queues == {"a": None, "b": 2}
    assert load(tmp_path, worker_queues={"a": 3}).worker_queues == {"a": 3}
    assert "'b:0' is no queue" in refusal(tmp_path, {"HOMING_WORKER_QUEUES": "a,b:0"})
    assert "'a' is named twice" in refusal(tmp_path, {"HOMING_WORKER_QUEUES": "a,a:2"})


def test_a_file_that_is_not_toml_is_refused(tmp_path: Path) -> None:
    """A broken or missing configuration file is an error with its path."""
    (tmp_path / "homing.toml").write_text("lease: 30s")
    assert f"{tmp_path}/homing.toml is not valid TOML" in refusal(tmp_path, {})
    assert "is no file" in refusal(tmp_path, {}, config_file=tmp_path / "other.toml")


def test_settings_cannot_be_changed(tmp_path: Path) -> None:
    """Settings are frozen: what was checked together stays together."""
    with pytest.raises(ValueError, match="frozen"):
        load(tmp_path).__setattr__("lease", seconds(1))
