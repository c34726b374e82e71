"""The address of Redis or Valkey, read from a URL, with its secrets kept out of every text.

    redis://[user:password@]host[:port][/db]                          one server
    rediss://…                                                        the same over TLS
    unix://[user:password@]/path[?db=n]                               one server, through its socket
    redis+sentinel://[user:password@]host[:port],host…/service[/db]   the primary that Sentinels name
    redis+cluster://[user:password@]host[:port],host…                 the part of a cluster that holds the prefix

`rediss+sentinel` and `rediss+cluster` are the two over TLS. User and password are percent-encoded.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field, replace
from enum import Enum
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from homing.errors import ConfigurationError

REDIS_PORT = 6379
SENTINEL_PORT = 26379

_REMEDY = (
    "write redis://[user:password@]host[:port][/db], rediss://… for TLS, unix://[user:password@]/path[?db=n], "
    "redis+sentinel://host[:port],host…/service[/db] or redis+cluster://host[:port],host…"
)
_TLS_OPTIONS = frozenset({"ssl_ca_certs", "ssl_cert_reqs", "ssl_certfile", "ssl_keyfile"})
_SENTINEL_OPTIONS = frozenset({"sentinel_user", "sentinel_password"})


class Topology(Enum):
    """Who has to be asked where the server is."""

    SERVER = "server"
    """Nobody: the URL says it."""
    SENTINEL = "sentinel"
    """Sentinels, which know the present primary of a service."""
    CLUSTER = "cluster"
    """Any node of the cluster, which knows who holds which keys."""


@dataclass(frozen=True, slots=True)
class Address:
    """A host and a port that can be connected to."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Credentials:
    """Whom to sign in as; a password without a user is the default user's."""

    user: str | None = None
    password: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """The terms of TLS. `verify` false accepts any certificate; `cert_file` and `key_file` are shown to a server that asks."""

    verify: bool = True
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisUrl:
    """Where to find the server and how to sign in; `repr` and `label` never show a password.

    `path` is set for a Unix socket, `nodes` otherwise: the server itself, or those who know it. `service`: what Sentinels call
    the group of servers. `tag`: on a cluster the hash tag that all keys begin with, so that one node holds them all.
    """

    topology: Topology = Topology.SERVER
    nodes: tuple[Address, ...] = (Address("localhost", REDIS_PORT),)
    path: str | None = None
    db: int = 0
    service: str | None = None
    tag: str | None = None
    credentials: Credentials = Credentials()
    sentinel_credentials: Credentials = Credentials()
    tls: Tls | None = None

    @property
    def label(self) -> str:
        """The address as it may appear in logs and errors."""
        if self.path is not None:
            return f"unix://{self.path}?db={self.db}"
        kind = "" if self.topology is Topology.SERVER else f"+{self.topology.value}"
        scheme = ("rediss" if self.tls else "redis") + kind
        service = "" if self.service is None else f"/{self.service}"
        database = "" if self.topology is Topology.CLUSTER else f"/{self.db}"
        return f"{scheme}://{','.join(map(str, self.nodes))}{service}{database}"

    def for_prefix(self, prefix: str) -> RedisUrl:
        """The address for keys of this prefix: on a cluster, of the node that holds them."""
        return replace(self, tag=prefix.strip("{}")) if self.topology is Topology.CLUSTER else self

    def key_prefix(self, prefix: str) -> str:
        """What keys start with: on a cluster the prefix is a hash tag, so that scripts find all keys of all queues on one node."""
        return f"{{{prefix.strip('{}')}}}" if self.topology is Topology.CLUSTER else prefix

    def ssl_context(self) -> ssl.SSLContext | None:
        """The TLS terms of the connection; `None` without TLS. Reads the files that the URL names."""
        if self.tls is None:
            return None
        tls = self.tls
        try:
            context = ssl.create_default_context(cafile=tls.ca_file)
            if tls.cert_file is not None:
                context.load_cert_chain(tls.cert_file, tls.key_file)
        except OSError as error:  # a malformed file is an `ssl.SSLError`, which is one too
            files = ", ".join(f"{name}={value!r}" for name, value in _named_files(tls))
            raise ConfigurationError(f"cannot read the certificates of {self.label} ({files}): {error}") from error
        if not tls.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context


def parse_url(url: str) -> RedisUrl:
    """Read a URL, or raise a `ConfigurationError` that says what is wrong with it without repeating its secret."""
    parts = _split(url.strip())
    base, _, kind = parts.scheme.partition("+")
    known = base in {"redis", "rediss"} and kind in {"", "sentinel", "cluster"}
    if not known and parts.scheme != "unix":
        raise ConfigurationError(f"a Redis URL cannot start with {parts.scheme!r}: {_REMEDY}")
    topology = Topology(kind) if kind else Topology.SERVER
    options = _options(parts, topology, with_tls=base == "rediss")
    user_info = parts.netloc.rpartition("@")[0]
    user, _, password = user_info.partition(":")
    credentials = Credentials(unquote(user) or None, unquote(password) or None)
    if parts.scheme == "unix":
        return _unix(parts, options, credentials)
    service, database = _path(parts, topology)
    return RedisUrl(
        topology=topology,
        nodes=_nodes(parts, topology),
        service=service,
        db=_database(database or options.get("db", "0")),
        credentials=credentials,
        sentinel_credentials=Credentials(options.get("sentinel_user"), options.get("sentinel_password")),
        tls=_tls(options) if base == "rediss" else None,
    )


# ── Parts ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
    except ValueError:
        # The text of the original error quotes the URL, and with it perhaps the password.
        raise ConfigurationError(_malformed()) from None
    if parts.fragment:
        raise ConfigurationError(f"a '#' in the Redis URL must be percent-encoded as %23: {_REMEDY}")
    return parts


def _malformed() -> str:
    return f"the Redis URL has a malformed host or port (percent-encode special characters of a password): {_REMEDY}"


def _nodes(parts: SplitResult, topology: Topology) -> tuple[Address, ...]:
    hosts = parts.netloc.rpartition("@")[2]
    port = SENTINEL_PORT if topology is Topology.SENTINEL else REDIS_PORT
    texts = [hosts] if topology is Topology.SERVER else hosts.split(",")
    return tuple(_address(text, port) for text in texts)


def _address(text: str, default_port: int) -> Address:
    try:
        parts = urlsplit(f"//{text}")
        port = parts.port
    except ValueError:
        raise ConfigurationError(_malformed()) from None
    if port == 0 or "," in text:
        raise ConfigurationError(_malformed())
    return Address(parts.hostname or "localhost", default_port if port is None else port)


def _path(parts: SplitResult, topology: Topology) -> tuple[str | None, str]:
    """The service and the database of the path."""
    path = parts.path.strip("/")
    if topology is Topology.SERVER:
        return None, path
    if topology is Topology.CLUSTER:
        if path not in {"", "0"}:
            raise ConfigurationError(f"a cluster has no database but 0, and the Redis URL ends with /{path}: {_REMEDY}")
        return None, ""
    service, _, database = path.partition("/")
    if not service:
        raise ConfigurationError(
            f"a redis+sentinel:// URL names the service that the Sentinels watch, such as /mymaster: {_REMEDY}"
        )
    return unquote(service), database


def _unix(parts: SplitResult, options: dict[str, str], credentials: Credentials) -> RedisUrl:
    if not parts.path.startswith("/") or parts.netloc.rpartition("@")[2]:
        raise ConfigurationError(f"a unix:// URL needs an absolute path (three slashes), not {parts.path!r}: {_REMEDY}")
    return RedisUrl(nodes=(), path=unquote(parts.path), db=_database(options.get("db", "0")), credentials=credentials)


def _options(parts: SplitResult, topology: Topology, *, with_tls: bool) -> dict[str, str]:
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    known = set() if topology is Topology.CLUSTER else {"db"}
    known |= _SENTINEL_OPTIONS if topology is Topology.SENTINEL else set()
    known |= _TLS_OPTIONS if with_tls else set()
    if unknown := sorted(set(options) - known):
        listed = ", ".join(sorted(known)) or "none"
        raise ConfigurationError(f"unknown option {unknown[0]!r} in the Redis URL; known here: {listed}")
    return options


def _database(text: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise ConfigurationError(f"the database of a Redis URL is a number ≥ 0, not {text!r}: {_REMEDY}")
    return int(text)


def _tls(options: dict[str, str]) -> Tls:
    wanted = options.get("ssl_cert_reqs", "required")
    if wanted not in {"required", "none"}:
        raise ConfigurationError(f"ssl_cert_reqs is 'required' or 'none', not {wanted!r}")
    cert_file, key_file = options.get("ssl_certfile"), options.get("ssl_keyfile")
    if key_file is not None and cert_file is None:
        raise ConfigurationError("ssl_keyfile in the Redis URL is the key of ssl_certfile, which is missing: give both")
    ca_file = options.get("ssl_ca_certs")
    return Tls(verify=wanted == "required", ca_file=ca_file, cert_file=cert_file, key_file=key_file)


def _named_files(tls: Tls) -> list[tuple[str, str]]:
    files = {"ssl_ca_certs": tls.ca_file, "ssl_certfile": tls.cert_file, "ssl_keyfile": tls.key_file}
    return [(name, value) for name, value in files.items() if value is not None]
