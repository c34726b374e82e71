"""Addresses of servers: which ones are accepted, how each driver wants them spelled, and how they look without secrets."""

import re
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

from homing.config.redis_url import parse_url
from homing.errors import ConfigurationError

POSTGRES_SCHEMES = ("postgresql", "postgres", "postgresql+asyncpg", "postgresql+psycopg")

_USER_INFO = re.compile(r"(://[^:/@]*):.*@")
_USER_INFO_IN_TEXT = re.compile(r"(://[^\s:/@]{0,256}):\S{0,1024}@")
_PARAMETER = re.compile(r"(password=)[^&\s]*", re.IGNORECASE)


def mask(url: str) -> str:
    """The address as it may be shown: every password in it replaced by `***`, also where the address is malformed."""
    return _PARAMETER.sub(r"\1***", _USER_INFO.sub(r"\1:***@", url))


def mask_text(text: str) -> str:
    """The same for text that may hold addresses among other words, such as the error of a driver."""
    return _PARAMETER.sub(r"\1***", _USER_INFO_IN_TEXT.sub(r"\1:***@", text))


def check_postgres_url(url: str) -> str:
    """Return `url` when it names a PostgreSQL database; a `ValueError` says what is wrong otherwise, without the password."""
    _check_scheme(url, POSTGRES_SCHEMES, "postgresql://user:password@host:5432/database")
    _check_port(url)
    return url


def check_redis_url(url: str) -> str:
    """Return `url` when it can be read as an address of Redis or Valkey; a `ValueError` says what is wrong otherwise."""
    try:
        parse_url(url)
    except ConfigurationError as error:
        raise ValueError(str(error)) from None
    return url


def libpq_url(url: str) -> str:
    """The spelling that libpq, psycopg and asyncpg read: `postgresql://…`."""
    return "postgresql://" + url.partition("://")[2]


def sqlalchemy_asyncpg_url(url: str) -> str:
    """The spelling for SQLAlchemy's `create_async_engine`; libpq's `sslmode` becomes the dialect's `ssl`."""
    parts = urlsplit(url)
    query = [("ssl" if name == "sslmode" else name, value) for name, value in parse_qsl(parts.query)]
    rest = urlunsplit(("", parts.netloc, parts.path, urlencode(query, quote_via=quote, safe="/"), ""))
    return "postgresql+asyncpg://" + rest.removeprefix("//")


def _check_scheme(url: str, accepted: tuple[str, ...], example: str) -> None:
    scheme, separator, _ = url.partition("://")
    if not separator:
        raise ValueError(f"it is no URL: write it as {example}")
    if scheme.lower() not in accepted:
        raise ValueError(f"scheme {scheme!r} is none of {', '.join(accepted)}: write it as {example}")


def _check_port(url: str) -> None:
    try:
        port = urlsplit(url).port
    except ValueError:
        if "," in urlsplit(url).netloc:  # several hosts, as libpq and asyncpg accept them
            return
        raise ValueError(
            "its port is no number from 1 to 65535: percent-encode '/', '#', '?' and '@' in a password"
        ) from None
    if port == 0:
        raise ValueError("port 0 cannot be connected to: give the port of the server, or leave it out")
