"""What a person can configure, checked as a whole before anything runs."""

import os
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    SecretStr,
    ValidationError,
)
from pydantic import model_validator as check_together

from homing.config.problems import explain
from homing.config.queues import describe_queues, read_queues
from homing.config.reading import Delay, Period, Window, read_words
from homing.config.sources import Layer, from_environment, from_file, from_mapping, gather
from homing.config.urls import check_postgres_url, check_redis_url, libpq_url, mask, sqlalchemy_asyncpg_url
from homing.durations import days, describe_seconds, milliseconds, seconds
from homing.errors import ConfigurationError

EngineName = Literal["redis", "postgres"]
PostgresUrl = Annotated[str, AfterValidator(check_postgres_url)]
RedisUrl = Annotated[str, AfterValidator(check_redis_url)]


class SettingLine(NamedTuple):
    """One setting as it may be shown: secrets masked, with the place its value came from."""

    name: str
    value: str
    source: str


class Retention(BaseModel):
    """How long finished things are kept."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    events: Window = days(30)
    """Events together with their deliveries, counted from the settling of the last one."""
    inbox: Window = days(30)
    """What settled jobs of other producers and `once` leave behind, counted from settling: for so long a copy is known."""
    dead_letters: Window = days(90)
    """Dead letters: open ones, with the events they could be redriven from, counted from the death, others from their closing."""


class Settings(BaseModel):
    """The settings of one process, frozen. Building it directly reads no variable and no file; `load_settings` does."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, validate_default=False)

    database_url: PostgresUrl | None = None
    """The ledger's database; read it through `asyncpg_dsn`, `psycopg_dsn` or `sqlalchemy_url`."""
    listen_database_url: PostgresUrl | None = None
    """The same database past a transaction pooler, for LISTEN; `None` = `database_url`."""
    redis_url: RedisUrl | None = None
    """Redis or Valkey; port 6379 and database 0 where the URL names none. The process that only records needs none."""
    engine: EngineName = "postgres"
    """Where jobs wait; not given: `redis` where `redis_url` is set, otherwise `postgres`."""
    app: str | None = None
    """Where commands find the app object, as `module:attribute`."""
    env: str = Field(default="development", min_length=1)
    """The name of this installation; `production` turns conveniences off."""
    prefix: str | None = Field(default=None, min_length=1, pattern=r"^(\{[^:{}\s]+\}|[^:{}\s]+)$")
    """What every key in Redis starts with; `None` = the name of the app."""
    worker_queues: Annotated[dict[str, Annotated[int, Field(gt=0)] | None] | None, BeforeValidator(read_queues)] = None
    """The queues a worker serves, each with its own concurrency or `None`; `None` = every queue of the app."""
    worker_concurrency: int = Field(default=10, gt=0)
    """Jobs that run at once for each queue that says nothing itself."""
    worker_processes: int = Field(default=1, gt=0)
    """Processes of one `homing worker`: more than one run under a supervisor, which restarts one that dies."""
    attempt_timeout: Period = seconds(60)
    """The longest one run of a handler may take."""
    lease: Period = seconds(30)
    """How long a run may go without a sign of life before another worker may start it; at least 3 beats."""
    beat: Period = seconds(5)
    """How often a running job's lease is renewed."""
    rescue: Period = seconds(15)
    """How often jobs without a lease are looked for."""
    shutdown_grace: Delay = seconds(25)
    """How long a stopping worker lets running jobs finish before they are given back."""
    relay_batch: int = Field(default=500, gt=0, le=10_000)
    """The most events that one statement routes."""
    relay_poll: Period = milliseconds(500)
    """How often the relay asks for events when no notification wakes it."""
    look: Period = seconds(1)
    """How often unsettled deliveries are compared with the engine."""
    look_grace: Delay = seconds(10)
    """How long a loss of the engine's data is given to settle before deliveries are dispatched again."""
    look_rate: int = Field(default=2000, gt=0)
    """The most deliveries of one queue that are compared with the engine in a second, and so dispatched again after a loss."""
    review: Period = seconds(30)
    """How often jobs that wait for children are looked at: whether what they wait for is still there, and not past their deadline."""
    retention: Retention = Retention()
    """How long finished things are kept."""
    http_address: str = Field(default="127.0.0.1:9464", pattern=r"^(off|.*:\d{1,5})$")
    """Where health and metrics are served, as host:port; `off` = nowhere."""
    dashboard_address: str = Field(default="127.0.0.1:9465", pattern=r"^.*:\d{1,5}$")
    """Where `homing dashboard` serves, as host:port; an address that others reach wants users or a token."""
    dashboard_prefix: str = ""
    """The path below which it serves, as in /ops/homing, for a proxy that gives it no host of its own."""
    dashboard_users: Path | None = None
    """The file of those who may log in, one a line, name:role:hash; `homing dashboard --add-user` writes it."""
    dashboard_token: SecretStr | None = None
    """What programs send as `Authorization: Bearer …`; 20 characters or more."""
    dashboard_token_role: Literal["viewer", "operator", "admin"] = "viewer"  # noqa: S105 - a role, no token
    """What a program with the token may do."""
    dashboard_secret: SecretStr | None = None
    """What seals sessions, 20 characters or more: the same for all its processes; not given, they end with the process."""
    dashboard_masked: Annotated[tuple[str, ...], BeforeValidator(read_words)] = ()
    """Fields of payloads that are not shown, besides passwords, tokens and the like; as in email,phone."""
    dashboard_trace_url: str | None = None
    """Where a trace can be seen, with {trace_id} in it."""
    trace_relation: Literal["link", "parent"] = "link"
    """What the span of a run is to what created its event, where OpenTelemetry is set up: `link` = a trace of its own that links to it, `parent` = its child."""
    log_level: Annotated[
        Literal["DEBUG", "INFO", "WARNING", "ERROR"], BeforeValidator(lambda text: str(text).upper())
    ] = "INFO"
    """The least severe line that is written."""
    log_format: Literal["auto", "json", "pretty"] = "auto"
    """`json` = one object a line, `pretty` = for people, `auto` = pretty on a terminal, otherwise json."""

    _sources: dict[str, str] = PrivateAttr(default_factory=dict)

    @check_together(mode="before")
    @classmethod
    def _choose_engine(cls, given: Any) -> Any:
        if isinstance(given, Mapping) and given.get("engine") is None:
            return {**given, "engine": "redis" if given.get("redis_url") else "postgres"}
        return given

    @check_together(mode="after")
    def _compare(self) -> Self:
        if self.lease < 3 * self.beat:
            raise ValueError(
                f"HOMING_LEASE is {_show(self.lease)} and HOMING_BEAT is {_show(self.beat)}: a lease must outlast 3 beats, "
                f"so raise HOMING_LEASE to {_show(3 * self.beat)} or lower HOMING_BEAT to {_show(self.lease / 3)}"
            )
        both_given = {"attempt_timeout", "shutdown_grace"} <= self.model_fields_set
        if both_given and self.attempt_timeout > self.shutdown_grace:
            raise ValueError(
                f"HOMING_ATTEMPT_TIMEOUT is {_show(self.attempt_timeout)} and HOMING_SHUTDOWN_GRACE is "
                f"{_show(self.shutdown_grace)}: a stop would interrupt runs that are in good time, so raise "
                f"HOMING_SHUTDOWN_GRACE to {_show(self.attempt_timeout)} or lower HOMING_ATTEMPT_TIMEOUT to "
                f"{_show(self.shutdown_grace)}"
            )
        return self

    @property
    def asyncpg_dsn(self) -> str:
        """The ledger's database for asyncpg; raises `ConfigurationError` when none is set."""
        return libpq_url(self._required_database_url())

    @property
    def psycopg_dsn(self) -> str:
        """The ledger's database for psycopg and libpq; raises `ConfigurationError` when none is set."""
        return libpq_url(self._required_database_url())

    @property
    def sqlalchemy_url(self) -> str:
        """The ledger's database for SQLAlchemy's `create_async_engine`; raises `ConfigurationError` when none is set."""
        return sqlalchemy_asyncpg_url(self._required_database_url())

    @property
    def listen_dsn(self) -> str:
        """The database for the relay's LISTEN connection, past a pooler where one is configured."""
        return libpq_url(self.listen_database_url or self._required_database_url())

    @property
    def redis_dsn(self) -> str:
        """The server of the redis engine; raises `ConfigurationError` when this process has no engine it could run on."""
        if self.engine != "redis":
            raise ConfigurationError(
                "the engine 'postgres' is declared but not built yet: set REDIS_URL (or HOMING_REDIS_URL) and leave "
                "HOMING_ENGINE unset or at 'redis'"
            )
        if self.redis_url is None:
            raise ConfigurationError(
                "HOMING_ENGINE is 'redis' and REDIS_URL is not set: set it, as in REDIS_URL=redis://localhost:6379/0"
            )
        return self.redis_url

    def describe(self) -> list[SettingLine]:
        """Every setting with its value, secrets masked, and where the value came from."""
        return [SettingLine(path, _show(value), self._source(path)) for path, value in _leaves(self)]

    def _source(self, path: str) -> str:
        if path == "engine" and "engine" not in self._sources:
            return "REDIS_URL is set" if self.redis_url else "REDIS_URL is not set"
        return self._sources.get(path, "default")

    def _required_database_url(self) -> str:
        if self.database_url is None:
            raise ConfigurationError(
                "DATABASE_URL is not set: set it (or HOMING_DATABASE_URL), as in "
                "DATABASE_URL=postgresql://user:password@localhost:5432/shop"
            )
        return self.database_url

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        yield from ((line.name, line.value) for line in self.describe())


def load_settings(
    *,
    config_file: Path | None = None,
    environ: Mapping[str, str] | None = None,
    directory: Path | None = None,
    **overrides: object,
) -> Settings:
    """Gather the settings of this process and check them; every problem found is in one `ConfigurationError`.

    `overrides` (the command line) win over variables, then `config_file` (default: `homing.toml`), then `pyproject.toml`,
    both in `directory` (default: the working directory). An override that is `None` was not given.
    """
    here = directory or Path.cwd()
    if config_file is not None and not config_file.is_file():
        raise ConfigurationError(f"--config {config_file} is no file: give the path of a TOML file, or leave it out")
    given = {name: value for name, value in overrides.items() if value is not None}
    found = gather(
        [
            from_mapping(given, PATHS, "command line"),
            from_environment(os.environ if environ is None else environ, PATHS),
            from_file(config_file or here / "homing.toml", PATHS),
            from_file(here / "pyproject.toml", PATHS, table=("tool", "homing")),
        ]
    )
    try:
        settings = Settings.model_validate(_nested(found))
    except ValidationError as error:
        raise ConfigurationError(explain(error, found)) from None
    settings._sources.update({path: value.source for path, value in found.items()})  # noqa: SLF001 - our own class
    return settings


def _paths(model: type[BaseModel], above: str = "") -> Iterator[str]:
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from _paths(field.annotation, f"{above}{name}.")
        else:
            yield above + name


PATHS = frozenset(_paths(Settings))
"""The path of every setting, such as `lease` and `retention.events`."""


def _nested(found: Layer) -> dict[str, Any]:
    nested: dict[str, Any] = {}
    for path, value in found.items():
        *groups, name = path.split(".")
        inner = nested
        for group in groups:
            inner = inner.setdefault(group, {})
        inner[name] = value.value
    return nested


def _leaves(model: BaseModel, above: str = "") -> Iterator[tuple[str, object]]:
    for name in type(model).model_fields:
        value = getattr(model, name)
        if isinstance(value, BaseModel):
            yield from _leaves(value, f"{above}{name}.")
        else:
            yield above + name, value


def _show(value: object) -> str:
    match value:
        case None:
            return "not set"
        case timedelta():
            return describe_seconds(value.total_seconds()).replace(" ", "")
        case dict():
            return describe_queues(value)
        case str():
            return mask(value)
        case tuple():
            return ",".join(map(str, value))
        case _:
            return str(value)
