"""What the shop needs to know: its database, its partners, its patience. Read from `SHOP_*` and `DATABASE_URL`."""

import difflib
import os
from collections.abc import Iterable
from typing import Annotated, Self, TypeVar

from pydantic import AfterValidator, AliasChoices, Field, SecretStr, ValidationError, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict
from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from homing.errors import ConfigurationError

PREFIX = "SHOP_"
_INJECTED = ("SHOP_SERVICE_", "SHOP_PORT")  # by Kubernetes, for a service called shop
_POSTGRES = ("postgres", "postgresql", "postgresql+asyncpg", "postgresql+psycopg")

S = TypeVar("S", bound="DatabaseSettings")


def _check_http(url: str) -> str:
    if not url.startswith(("http://", "https://")):
        raise ValueError("write it as http://host:port")
    return url.rstrip("/")


def _check_postgres(url: str) -> str:
    try:
        driver = make_url(url).drivername
    except ArgumentError:
        driver = ""
    if driver not in _POSTGRES:
        raise ValueError("write it as postgresql://user:password@host:5432/database")
    return url


HttpUrl = Annotated[str, AfterValidator(_check_http)]
Seconds = Annotated[float, Field(gt=0, le=3600, allow_inf_nan=False)]


class DatabaseSettings(BaseSettings):
    """Where the shop's tables are; the same database as the ledger's."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, frozen=True, hide_input_in_errors=True, populate_by_name=True, extra="ignore"
    )

    database_url: Annotated[str, AfterValidator(_check_postgres)] = Field(
        validation_alias=AliasChoices("SHOP_DATABASE_URL", "HOMING_DATABASE_URL", "DATABASE_URL"), repr=False
    )

    @property
    def sqlalchemy_url(self) -> URL:
        """The database for SQLAlchemy's async engine."""
        url = make_url(self.database_url).set(drivername="postgresql+asyncpg")
        query = {"ssl" if name == "sslmode" else name: value for name, value in url.query.items()}
        return url.set(query=query)


class PaceSettings(BaseSettings):
    """How fast the shipping queue may go; declared with the queue, so it is read when `shop.jobs` is."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="ignore")

    shipping_rate: int = Field(default=4, ge=1)
    """Jobs a second over all workers. The carrier allows 10 requests; a job makes up to 2, and others use our key too."""
    shipping_concurrency: int = Field(default=4, ge=1)
    """Jobs at once in each worker."""


class ShopSettings(DatabaseSettings, PaceSettings):
    """Everything; the API and the workers are configured alike."""

    gateway_url: HttpUrl
    """The payment gateway."""
    carrier_url: HttpUrl
    """The carrier."""
    carrier_api_key: SecretStr = Field(min_length=1)
    """Our key at the carrier."""
    smtp_host: str = Field(min_length=1)
    """The mail server."""
    smtp_port: int = Field(ge=1, le=65535)
    """Its port."""
    sender: str = Field(default="Homing Shop <orders@shop.example>", min_length=3)
    """The From of every e-mail."""
    request_timeout: Seconds = 10.0
    """The longest one call to a partner may take, in seconds."""
    checkout_busy: Seconds = 30.0
    """How long one request may work on a checkout before another may take it over, in seconds."""
    checkout_expiry: Seconds = 900.0
    """How old a checkout without an order gets before the clean-up undoes it, in seconds."""

    @model_validator(mode="after")
    def _compare(self) -> Self:
        if self.checkout_busy <= 2 * self.request_timeout:
            raise ValueError(
                f"SHOP_CHECKOUT_BUSY is {self.checkout_busy:g} s and SHOP_REQUEST_TIMEOUT is {self.request_timeout:g} s: "
                "a checkout asks the gateway up to twice, so the first must be more than twice the second"
            )
        if self.checkout_expiry < self.checkout_busy:
            raise ValueError(
                f"SHOP_CHECKOUT_EXPIRY is {self.checkout_expiry:g} s and SHOP_CHECKOUT_BUSY is {self.checkout_busy:g} s: "
                "nothing may expire while a request works on it"
            )
        return self


def load_shop_settings() -> ShopSettings:
    """Read all settings of the shop; one `ConfigurationError` lists everything that is wrong with them."""
    return _load(ShopSettings)


def load_database_settings() -> DatabaseSettings:
    """Read only where the database is: for migrations."""
    return _load(DatabaseSettings)


def _load(kind: type[S]) -> S:
    _refuse_unknown(os.environ)
    try:
        return kind()  # type: ignore[call-arg]  # the variables are the arguments
    except ValidationError as error:
        lines = [_explain(detail["loc"], detail["msg"]) for detail in error.errors(include_url=False)]
        raise ConfigurationError("the shop cannot start: " + "; ".join(lines)) from None


def _explain(location: tuple[int | str, ...], message: str) -> str:
    if not location:
        return message.removeprefix("Value error, ")
    name = str(location[0])
    variable = "DATABASE_URL" if name.endswith("DATABASE_URL") else PREFIX + name.upper().removeprefix(PREFIX)
    value = os.environ.get(variable)
    if value is None:
        return f"{variable} is not set"
    shown = "***" if "KEY" in variable or "DATABASE" in variable else repr(value)
    return f"{variable}={shown}: {message.removeprefix('Value error, ')}"


def _refuse_unknown(names: Iterable[str]) -> None:
    known = [PREFIX + name.upper() for name in ShopSettings.model_fields]
    for name in sorted(names):
        if name.startswith(PREFIX) and not name.startswith(_INJECTED) and name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(sorted(known))}"
            raise ConfigurationError(f"unknown variable {name}: {hint}")
