"""Both servers by one call: what a URL names is used, what no URL names is started here."""

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from homing.embedded.binaries import find_postgres, find_valkey
from homing.embedded.postgres import EmbeddedPostgres
from homing.embedded.valkey import EmbeddedValkey

DEFAULT_HOME = ".homing"


@dataclass(frozen=True)
class Servers:
    """Two URLs, and the servers that were started for them; None where a URL was given."""

    database_url: str
    redis_url: str
    postgres: EmbeddedPostgres | None
    valkey: EmbeddedValkey | None

    def stop(self) -> None:
        """Stop the embedded ones, for everybody who uses them; servers of given URLs are left alone."""
        if self.valkey is not None:
            self.valkey.stop()
        if self.postgres is not None:
            self.postgres.stop()


def open_servers(
    home: Path | None = None,
    *,
    database_url: str | None,
    redis_url: str | None,
    postgres_settings: Mapping[str, str] | None = None,
) -> Servers:
    """Return usable URLs; starts (or attaches to) an embedded server for each URL that is None or empty.

    `home` is `.homing` in the current directory by default. Raises `ConfigurationError` that names the variable to set
    when no server program is found.
    """
    root = (Path.cwd() / DEFAULT_HOME) if home is None else home
    postgres = None if database_url else EmbeddedPostgres(root / _postgres_folder(), settings=postgres_settings)
    valkey = None if redis_url else EmbeddedValkey(root / _valkey_folder())
    is_new = not root.exists()
    with ExitStack() as undo:
        if postgres and not postgres.start().attached:
            undo.callback(postgres.stop)
        if valkey:
            valkey.start()
        undo.pop_all()  # both run: nothing to undo
    if is_new and root.exists():
        (root / ".gitignore").write_text("*\n")  # it holds passwords
    return Servers(
        database_url=postgres.url() if postgres else str(database_url),
        redis_url=valkey.url() if valkey else str(redis_url),
        postgres=postgres,
        valkey=valkey,
    )


def _postgres_folder() -> str:
    return f"postgres{find_postgres().major}"


def _valkey_folder() -> str:
    binary = find_valkey()
    return f"{binary.engine}{binary.major}"
