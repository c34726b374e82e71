"""What both embedded servers do alike: start or attach, stop, die, and come back on the same port."""

import os
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from signal import SIGKILL, Signals
from types import TracebackType
from typing import ClassVar, Self

from homing.embedded.folder import START_TIMEOUT_SECONDS, ServerFolder
from homing.embedded.history import copy_data
from homing.embedded.identity import Account
from homing.embedded.parent import dismiss, watch
from homing.embedded.processes import clean_environment, launch, reap_in_background, wait_until
from homing.errors import ServerUnavailable

STOP_TIMEOUT_SECONDS = 30.0
PORT_ATTEMPTS = 5


class EmbeddedServer(ABC):
    """A server that lives in a folder, not in this object: any process may attach to it or stop it.

    It survives the process that started it unless `stop_with_parent` was called. After kill -9 of either side the
    next `start` attaches or recovers. At no time do two servers run on one folder. All methods block.
    """

    name: ClassVar[str]
    stop_signal: ClassVar[Signals]
    immediate_signal: ClassVar[Signals]

    def __init__(self, home: Path) -> None:
        self._folder = ServerFolder(home)
        self._started_pid: int | None = None
        self._account = Account()
        self.attached = False

    @property
    def home(self) -> Path:
        return self._folder.home

    @property
    def port(self) -> int:
        return self._folder.port

    @property
    def pid(self) -> int:
        """The main process; raises `ServerUnavailable` when the server does not run."""
        if (pid := self._recorded_pid()) is None or not self._folder.is_in_use():
            raise ServerUnavailable(f"No {self.name} runs in {self.home}: call start().")
        return pid

    def start(self) -> Self:
        """Start the server, or attach to the one that already runs on this folder; returns when it can be used.

        Settings take effect when the server really starts. Raises `ConfigurationError` for a folder or a machine that
        cannot work, `ServerUnavailable` with the end of the log when the server does not come up.
        """
        self._prepare_folder()
        with self._folder.one_at_a_time():
            wait_until(
                lambda: not self._folder.is_in_use() or self._is_ready(),
                timeout_seconds=START_TIMEOUT_SECONDS,
                waiting_for=f"the {self.name} that runs in {self.home}; its log is {self._folder.log}",
            )
            if self._folder.is_in_use():
                self.attached = self.pid != self._started_pid
            else:
                self._boot()
            self._after_start()
        return self

    def stop(self, *, immediate: bool = False) -> None:
        """Shut the server down, for everyone who uses it; does nothing if none runs.

        `immediate` skips the clean-up, so that the next start recovers as after a crash.
        """
        if self.home.exists():
            with self._folder.one_at_a_time():
                self._end(self.immediate_signal if immediate else self.stop_signal)
        dismiss(self._folder.server_lock)

    def kill(self) -> None:
        """Kill the main process with SIGKILL, as the kernel would; returns when nothing of the server is left."""
        self._end(SIGKILL)

    def restart(self, *, immediate: bool = False) -> Self:
        """Stop the server as `stop` does and start it again, with our settings and on the same port; a watcher goes on watching."""
        with self._folder.one_at_a_time():
            self._end(self.immediate_signal if immediate else self.stop_signal)
        return self.start()

    def save_data(self, to: Path) -> None:
        """Copy the data of the stopped server to a folder; see `restore_data`. Raises `ServerUnavailable` while it runs."""
        with self._stopped("its data can be copied"):
            copy_data(self._folder.data, to, self._account)

    def restore_data(self, saved: Path) -> None:
        """Make the data of the stopped server what `save_data` kept: everything later is forgotten, as in a lost disk."""
        with self._stopped("its data can be replaced"):
            copy_data(saved, self._folder.data, self._account)

    def watch_parent(self) -> int:
        """See `stop_with_parent`; returns the process id of the watcher."""
        return watch(server_lock=self._folder.server_lock, pid_file=self._pid_file, signal=self.stop_signal)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    @property
    @abstractmethod
    def _pid_file(self) -> Path:
        """The file whose first word is the main process."""

    @abstractmethod
    def _may_be_ours(self, pid: int) -> bool:
        """Tell whether a recorded number still belongs to a living server."""

    @abstractmethod
    def _prepare_folder(self) -> None:
        """Find the binaries, create the folder, refuse one that belongs to another version."""

    @abstractmethod
    def _prepare_data(self, server_lock: int) -> None:
        """Make the data usable for a start; no server runs."""

    @abstractmethod
    def _command(self, port: int) -> Sequence[str]:
        """The command line of the server."""

    @abstractmethod
    def _is_ready(self) -> bool:
        """Tell whether the server answers at our port."""

    @abstractmethod
    def _after_start(self) -> None:
        """Do what needs a running server."""

    def _environment(self) -> dict[str, str]:
        return clean_environment()

    @contextmanager
    def _stopped(self, before: str) -> Iterator[None]:
        """Hold the lock of starters for work on the files; raise `ServerUnavailable` when a server uses them."""
        with self._folder.one_at_a_time():
            if self._folder.is_in_use():
                raise ServerUnavailable(f"{self.name} runs in {self.home}: stop it before {before}.")
            yield

    def _boot(self) -> None:
        for _ in range(PORT_ATTEMPTS):
            log_start = self._folder.log.stat().st_size
            with self._folder.server_place() as server_lock:
                self._prepare_data(server_lock)
                process = launch(
                    self._command(self._folder.claim_port()),
                    account=self._account,
                    log=self._folder.log,
                    inherited_lock=server_lock,
                    environment=self._environment(),
                )
            try:
                if self._comes_up(process):
                    self.attached, self._started_pid = False, process.pid
                    return
            finally:
                reap_in_background(process)
            words = self._folder.log.read_bytes()[log_start:].decode(errors="replace")
            if "Address already in use" not in words:
                raise ServerUnavailable(
                    f"{self.name} did not start in {self.home}. Its log ends with:\n{words[-2000:]}"
                )
        raise ServerUnavailable(f"{self.name} found no free port in {PORT_ATTEMPTS} attempts; see {self._folder.log}.")

    def _comes_up(self, process: subprocess.Popen[bytes]) -> bool:
        wait_until(
            lambda: process.poll() is not None or self._is_ready(),
            timeout_seconds=START_TIMEOUT_SECONDS,
            waiting_for=f"{self.name} in {self.home} to answer (it goes on starting); its log is {self._folder.log}",
        )
        return process.poll() is None

    def _end(self, signal: Signals) -> None:
        signalled = False

        def ended() -> bool:
            nonlocal signalled
            if not self._folder.is_in_use():
                return True
            signalled = signalled or self._signal(signal)
            return False

        wait_until(
            ended,
            timeout_seconds=STOP_TIMEOUT_SECONDS,
            waiting_for=f"{self.name} in {self.home} to end after {signal.name}; its log is {self._folder.log}",
        )

    def _signal(self, signal: Signals) -> bool:
        """Signal the main process; False if there is none: at its first and last moments no file names it."""
        pid = self._recorded_pid()
        if pid is None or not self._may_be_ours(pid):  # a stale number may be another program's by now
            return False
        os.kill(pid, signal)
        return True

    def _recorded_pid(self) -> int | None:
        try:
            words = self._pid_file.read_text().split()
        except FileNotFoundError:
            return None
        return int(words[0]) if words else None


def stop_with_parent(server: EmbeddedServer) -> None:
    """Let a small watcher process stop the server when this Python process ends, even by kill -9.

    Holds across `kill` and `start`; `stop` ends the watcher, so ask again after a later start.
    """
    server.watch_parent()
