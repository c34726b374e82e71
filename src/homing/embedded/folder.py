"""The folder of one embedded server: password, port, locks, log and data."""

import os
import secrets
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from homing.embedded.processes import exclusive_lock, is_locked, wait_until
from homing.errors import ConfigurationError, ServerUnavailable

START_TIMEOUT_SECONDS = 120.0
RELEASE_TIMEOUT_SECONDS = 30.0
PORT_RELEASE_SECONDS = 5.0
"""How long a port that is not free may still be the ended server's: its lock goes first, its sockets a moment later."""
# Below the range that kernels hand out to clients (32768 on Linux, 49152 on macOS): a port from that range could be
# taken while the server is down, even by a client that connects to itself in its reconnect loop.
PORTS = range(15_000, 32_000)


class ServerFolder:
    """Names and small files of one server's home; nothing is created before `create`."""

    def __init__(self, home: Path) -> None:
        self.home = home.expanduser().absolute()  # the server has another working directory
        self.data = self.home / "data"
        self.log = self.home / "server.log"
        self._password_file = self.home / "password"
        self._port_file = self.home / "port"
        self._start_lock = self.home / "start.lock"
        self.server_lock = self.home / "server.lock"

    def create(self, mode: int = 0o700) -> None:
        """Make the folder and what is missing above it; what exists keeps its mode and owner."""
        try:
            for folder in reversed([self.home, *self.home.parents]):
                if not folder.exists():
                    folder.mkdir(mode=mode, exist_ok=True)
            if not os.access(self.home, os.W_OK | os.X_OK):
                raise PermissionError(f"user id {os.geteuid()} may not write there")
            self.log.touch(mode=0o600)
        except OSError as error:
            raise ConfigurationError(
                f"{self.home} cannot be the home of a server: {error}. Choose another home, or mend its owner and mode."
            ) from error

    @contextmanager
    def one_at_a_time(self) -> Iterator[None]:
        """Hold the lock of starters and stoppers; the kernel frees it if we are killed."""
        waiting_for = f"another process that starts or stops the server in {self.home}"
        with exclusive_lock(self._start_lock, timeout_seconds=START_TIMEOUT_SECONDS, waiting_for=waiting_for):
            yield

    @contextmanager
    def server_place(self) -> Iterator[int]:
        """Hold the one place for a server on this data; yields the descriptor that the server must inherit."""
        waiting_for = f"the last processes of an earlier server in {self.home}"
        with exclusive_lock(
            self.server_lock, timeout_seconds=RELEASE_TIMEOUT_SECONDS, waiting_for=waiting_for
        ) as descriptor:
            yield descriptor

    def is_in_use(self) -> bool:
        """Tell whether any process of a server lives on this data."""
        return is_locked(self.server_lock)

    @property
    def password(self) -> str:
        try:
            return self._password_file.read_text().strip()
        except FileNotFoundError as error:
            raise ServerUnavailable(f"No server was started in {self.home} yet: call start() first.") from error

    @property
    def has_password(self) -> bool:
        return self._password_file.exists()

    @property
    def password_file(self) -> Path:
        return self._password_file

    def ensure_password(self) -> None:
        if not self.has_password:
            write_private(self._password_file, secrets.token_urlsafe(24))

    @property
    def port(self) -> int:
        try:
            return int(self._port_file.read_text())
        except FileNotFoundError as error:
            raise ServerUnavailable(f"No server was started in {self.home} yet: call start() first.") from error

    def claim_port(self) -> int:
        """Return the port of the last start, so that URLs stay valid; a new one at first or if somebody took it."""
        if self._port_file.exists() and _becomes_free(self.port):
            return self.port
        candidates = (secrets.choice(PORTS) for _ in range(1000))
        port = next(candidate for candidate in candidates if _is_free(candidate))
        write_private(self._port_file, str(port))
        return port

    def is_listening(self) -> bool:
        """Tell whether something accepts connections at our port."""
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
        except OSError:
            return False
        return True


def write_private(path: Path, text: str) -> None:
    """Replace a file in one step; only the owner may read it, at no moment anyone else."""
    fresh = path.with_name(f"{path.name}.new")
    fresh.unlink(missing_ok=True)
    with os.fdopen(
        os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8", errors="surrogateescape"
    ) as file:
        file.write(text)
    fresh.replace(path)


def _becomes_free(port: int) -> bool:
    with suppress(ServerUnavailable):
        wait_until(lambda: _is_free(port), timeout_seconds=PORT_RELEASE_SECONDS, waiting_for=f"port {port}")
        return True
    return False


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers do: closing connections do not count
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
