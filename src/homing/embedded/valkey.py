"""Valkey (or Redis) in a folder: append-only file, no eviction, a password, loopback only."""

import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from signal import SIGKILL, SIGTERM

from homing.embedded.binaries import ValkeyBinary, find_valkey
from homing.embedded.folder import write_private
from homing.embedded.history import append_only_file, cut
from homing.embedded.lifecycle import EmbeddedServer
from homing.embedded.processes import program_of
from homing.errors import ConfigurationError, ServerUnavailable

DEFAULT_SETTINGS: Mapping[str, str] = {
    "appendonly": "yes",
    "appendfsync": "everysec",
    "save": "",
    "maxmemory-policy": "noeviction",
}
OWN_SETTINGS = frozenset(
    {"bind", "port", "dir", "requirepass", "daemonize", "pidfile", "unixsocket", "logfile", "protected-mode"}
)


class EmbeddedValkey(EmbeddedServer):
    """A Valkey server in `home`, or a Redis server where only that is installed."""

    name = "Valkey"
    stop_signal = SIGTERM  # writes what is left of the append-only file, then ends
    immediate_signal = SIGKILL

    def __init__(self, home: Path, *, settings: Mapping[str, str] | None = None) -> None:
        super().__init__(home)
        self._settings = {**DEFAULT_SETTINGS, **(settings or {})}
        if own := sorted(OWN_SETTINGS & self._settings.keys()):
            raise ConfigurationError(f"Valkey settings {', '.join(own)} belong to the embedded server: leave them out.")
        self._cached_binary: ValkeyBinary | None = None

    def url(self, db: int = 0) -> str:
        """Return `redis://:password@127.0.0.1:port/db`, valid across restarts."""
        return f"redis://:{self._folder.password}@127.0.0.1:{self.port}/{db}"

    @property
    def log_bytes(self) -> int:
        """The length of the append-only log; while nobody writes it names this moment of the server's history."""
        return append_only_file(self._folder.data).stat().st_size

    def rewind(self, log_bytes: int) -> None:
        """Cut the log of the stopped server to its first `log_bytes`: what was written later is lost, as with a crash.

        Any number from 0 to `log_bytes` will do: a script or a command that is cut in the middle is lost as a whole. Raises
        `ServerUnavailable` while the server runs.
        """
        with self._stopped("its log can be cut"):
            cut(append_only_file(self._folder.data), log_bytes)

    @property
    def _pid_file(self) -> Path:
        return self.home / "valkey.pid"

    def _may_be_ours(self, pid: int) -> bool:
        return program_of(pid) is not None  # the file is removed before each start: it names no older server

    @property
    def _engine_file(self) -> Path:
        return self.home / "engine"

    @property
    def _binary(self) -> ValkeyBinary:
        if self._cached_binary is None:
            self._cached_binary = find_valkey()
        return self._cached_binary

    def _prepare_folder(self) -> None:
        binary = self._binary
        self._folder.create()
        self._refuse_foreign_engine(binary)

    def _refuse_foreign_engine(self, binary: ValkeyBinary) -> None:
        if not self._engine_file.exists():
            return
        engine, major = self._engine_file.read_text().split()
        if engine != binary.engine or int(major) > binary.major:
            raise ConfigurationError(
                f"{self._folder.data} was made by {engine} {major}, but {binary.path} is {binary.engine} "
                f"{binary.major}, which may not read it. Use another home, or set HOMING_EMBEDDED_VALKEY_BIN to a "
                f"server of the same kind, {major} or newer."
            )

    def _prepare_data(self, server_lock: int) -> None:
        del server_lock  # nothing is run here
        self._pid_file.unlink(missing_ok=True)  # of a server that was killed
        self._folder.data.mkdir(mode=0o700, exist_ok=True)
        self._folder.ensure_password()
        write_private(self._engine_file, f"{self._binary.engine} {self._binary.major}")

    def _command(self, port: int) -> Sequence[str]:
        own = {
            "bind": "127.0.0.1",
            "port": str(port),
            "protected-mode": "yes",
            "requirepass": self._folder.password,
            "daemonize": "no",
            "pidfile": str(self._pid_file),
            "dir": str(self._folder.data),
            "logfile": "",
        }
        configuration = self.home / "valkey.conf"  # a file, because a command line would show the password to all
        lines = (f"{name} {_quoted(value)}\n" for name, value in {**self._settings, **own}.items())
        write_private(configuration, "".join(lines))
        return [str(self._binary.path), str(configuration)]

    def _is_ready(self) -> bool:
        """Tell whether it answers to our password and has loaded its data."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=2) as connection:
                connection.sendall(f"AUTH {self._folder.password}\r\nPING\r\n".encode())
                with connection.makefile("rb") as answers:
                    return answers.readline() == b"+OK\r\n" and answers.readline() == b"+PONG\r\n"
        except (OSError, ServerUnavailable):  # not there yet; whoever waits for us has a deadline
            return False

    def _after_start(self) -> None:
        """Nothing: a Valkey that answers is complete."""


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
