"""The address of a Redis or Valkey server, read from a URL, with its secret kept out of every text."""

import ssl
from dataclasses import dataclass, field
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from homing.errors import ConfigurationError

_REMEDY = "write redis://[user:password@]host[:port][/db], rediss://… for TLS, or unix://[user:password@]/path[?db=n]"
_TLS_OPTIONS = frozenset({"ssl_ca_certs", "ssl_cert_reqs"})


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisUrl:
    """Where the server listens and how to sign in; `repr` and `label` never show the password.

    `path` is set for a Unix socket, `host` and `port` otherwise. `verify_tls` false accepts any certificate.
    """

    host: str = "localhost"
    port: int = 6379
    path: str | None = None
    db: int = 0
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    tls: bool = False
    verify_tls: bool = True
    ca_file: str | None = None

    @property
    def label(self) -> str:
        """The address as it may appear in logs and errors."""
        if self.path is not None:
            return f"unix://{self.path}?db={self.db}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'rediss' if self.tls else 'redis'}://{host}:{self.port}/{self.db}"

    def ssl_context(self) -> ssl.SSLContext | None:
        """The TLS terms of the connection; `None` without TLS."""
        if not self.tls:
            return None
        try:
            context = ssl.create_default_context(cafile=self.ca_file)
        except OSError as error:
            raise ConfigurationError(f"cannot read ssl_ca_certs={self.ca_file!r} of {self.label}: {error}") from error
        if not self.verify_tls:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context


def parse_url(url: str) -> RedisUrl:
    """Read a URL, or say what is wrong with it without repeating its secret."""
    try:
        parts = urlsplit(url.strip())
        port = parts.port
    except ValueError:
        # The text of the original error quotes the URL, and with it perhaps the password.
        raise ConfigurationError(
            f"the Redis URL has a malformed host or port (percent-encode special characters of a password): {_REMEDY}"
        ) from None
    options = _options(parts)
    user = unquote(parts.username) if parts.username else None
    password = unquote(parts.password) if parts.password else None
    if parts.scheme == "unix":
        return _unix(parts, options, user, password)
    if parts.scheme not in {"redis", "rediss"}:
        raise ConfigurationError(f"a Redis URL cannot start with {parts.scheme!r}: {_REMEDY}")
    return RedisUrl(
        host=parts.hostname or "localhost",
        port=6379 if port is None else port,
        db=_database(parts.path.strip("/") or options.get("db", "0")),
        user=user,
        password=password,
        tls=parts.scheme == "rediss",
        verify_tls=_verifies(options),
        ca_file=options.get("ssl_ca_certs"),
    )


def _unix(parts: SplitResult, options: dict[str, str], user: str | None, password: str | None) -> RedisUrl:
    if not parts.path.startswith("/") or parts.hostname:
        raise ConfigurationError(f"a unix:// URL needs an absolute path (three slashes), not {parts.path!r}: {_REMEDY}")
    path = unquote(parts.path)
    return RedisUrl(path=path, db=_database(options.get("db", "0")), user=user, password=password)


def _options(parts: SplitResult) -> dict[str, str]:
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    known = {"db"} | (_TLS_OPTIONS if parts.scheme == "rediss" else set())
    unknown = sorted(set(options) - known)
    if unknown:
        raise ConfigurationError(
            f"unknown option {unknown[0]!r} in the Redis URL; known here: {', '.join(sorted(known))}"
        )
    if parts.fragment:
        raise ConfigurationError(f"a '#' in the Redis URL must be percent-encoded as %23: {_REMEDY}")
    return options


def _database(text: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise ConfigurationError(f"the database of a Redis URL is a number ≥ 0, not {text!r}: {_REMEDY}")
    return int(text)


def _verifies(options: dict[str, str]) -> bool:
    wanted = options.get("ssl_cert_reqs", "required")
    if wanted not in {"required", "none"}:
        raise ConfigurationError(f"ssl_cert_reqs is 'required' or 'none', not {wanted!r}")
    return wanted == "required"
