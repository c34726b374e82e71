"""Starting providers as child processes, turning their knobs and reading their ledgers from outside."""

import json
import os
import selectors
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Literal, Self

import httpx

import shop
from homing.errors import ConfigurationError, ServerUnavailable
from shop.providers.knobs import Knobs

ProviderName = Literal["gateway", "carrier", "mailbox"]
KnobValue = bool | int | float | str | None | list[str]

START_TIMEOUT_SECONDS = 30.0
STOP_TIMEOUT_SECONDS = 5.0
CALL_TIMEOUT_SECONDS = 10.0


@dataclass(frozen=True, kw_only=True)
class _Launch:
    """How a provider was started, so that it can be started again."""

    name: ProviderName
    log_dir: Path
    state_file: Path | None
    knobs: Mapping[str, KnobValue]
    port: int = 0
    smtp_port: int = 0

    def command(self) -> list[str]:
        command = [sys.executable, "-m", f"shop.providers.{self.name}", "--until-stdin-closes", f"--port={self.port}"]
        if self.name == "mailbox":
            command.append(f"--smtp-port={self.smtp_port}")
        if self.state_file is not None:
            command.append(f"--state={self.state_file}")
        return command + [f"--{knob.replace('_', '-')}={json.dumps(value)}" for knob, value in self.knobs.items()]


@dataclass(kw_only=True)
class ProviderProcess:
    """A provider that runs beside us; it ends with `stop`, with `kill`, or when this process ends in any way.

    `url` is where it speaks HTTP (the mailbox: its control port); `smtp_host` and `smtp_port` are the mailbox's.
    """

    name: ProviderName
    url: str
    pid: int
    log_file: Path
    smtp_host: str | None = None
    smtp_port: int | None = None
    _launch: _Launch
    _child: subprocess.Popen[str]
    _client: httpx.Client = field(init=False)

    def __post_init__(self) -> None:
        self._client = httpx.Client(base_url=self.url, timeout=CALL_TIMEOUT_SECONDS, trust_env=False)

    @classmethod
    def start(
        cls, name: ProviderName, log_dir: Path, *, state_file: Path | None = None, port: int = 0, **knobs: KnobValue
    ) -> Self:
        """Start a provider and return once it answers; what it says goes to `<log_dir>/<name>.log`.

        Raises `ConfigurationError` for an unknown knob and `ServerUnavailable`, with the end of the log, if it does
        not come up within 30 seconds.
        """
        unknown = knobs.keys() - Knobs.model_fields.keys()
        if unknown:
            raise ConfigurationError(f"unknown knobs {sorted(unknown)}; a provider has {', '.join(Knobs.model_fields)}")
        if name == "mailbox" and state_file is not None:
            raise ConfigurationError(f"a mailbox keeps its messages in memory only; leave out state_file={state_file}")
        return cls._run(_Launch(name=name, log_dir=log_dir, state_file=state_file, knobs=knobs, port=port))

    def restart(self) -> Self:
        """Start it again after `stop` or `kill`, at the same ports, with the knobs of the first start."""
        port = httpx.URL(self.url).port or 0
        launch = _Launch(**{**vars(self._launch), "port": port, "smtp_port": self.smtp_port or 0})
        return self._run(launch)

    @property
    def running(self) -> bool:
        return self._child.poll() is None

    def control(self, **knobs: KnobValue) -> dict[str, Any]:
        """Turn some knobs and return all of them; `ConfigurationError` names an unknown knob or a wrong value."""
        response = self._client.post("/_control", json=knobs)
        if response.status_code == 422:
            raise ConfigurationError(response.json()["error"]["message"])
        turned: dict[str, Any] = self._content(response)["knobs"]
        return turned

    def reset(self, *, ledger: bool = False) -> None:
        """Go back to the knobs of the start and let held calls go; with `ledger`, forget the history too."""
        self._content(self._client.post("/_control/reset", json={"ledger": ledger}))

    def release(self) -> None:
        """Let held calls go on, and hang no more."""
        self._content(self._client.post("/_control/release"))

    def wait_until_held(self, calls: int = 1, timeout_seconds: float = 10.0) -> None:
        """Return once exactly that many calls hang (0: none any more); `TimeoutError` otherwise."""
        response = self._client.get(
            "/_control/held",
            params={"calls": calls, "timeout_seconds": timeout_seconds},
            timeout=timeout_seconds + CALL_TIMEOUT_SECONDS,
        )
        if response.status_code == 504:
            raise TimeoutError(
                f"{self.name}: {response.json()['held']} calls held after {timeout_seconds} s, not {calls}"
            )
        self._content(response)

    def advance(self, duration: timedelta) -> None:
        """Put the gateway's clock forward, so that keys are forgotten and holds expire."""
        self._content(self._client.post("/_control/advance", json={"seconds": duration.total_seconds()}))

    def ledger(self) -> dict[str, Any]:
        """Return what really happened there."""
        return self._content(self._client.get("/_ledger"))

    def stop(self) -> None:
        """End it in good order; a second call does nothing."""
        if self.running:
            self._child.terminate()
        self._bury()

    def kill(self) -> None:
        """End it with SIGKILL, as a crash would."""
        if self.running:
            self._child.kill()
        self._bury()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @classmethod
    def _run(cls, launch: _Launch) -> Self:
        launch.log_dir.mkdir(parents=True, exist_ok=True)
        log_file = launch.log_dir / f"{launch.name}.log"
        with log_file.open("ab") as log:
            child = subprocess.Popen(
                launch.command(),
                stdin=subprocess.PIPE,  # never written to: it ends when we do, and takes the provider along
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**os.environ, "PYTHONPATH": _import_path()},
                start_new_session=True,  # Ctrl-C reaches us, and we decide when the provider stops
            )
        address = _wait_until_ready(child, launch.name, log_file)
        return cls(name=launch.name, log_file=log_file, _launch=launch, _child=child, **address)

    def _bury(self) -> None:
        try:
            self._child.wait(STOP_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            self._child.kill()
        _close(self._child)
        self._client.close()

    def _content(self, response: httpx.Response) -> dict[str, Any]:
        response.raise_for_status()
        content: dict[str, Any] = response.json()
        return content


def _wait_until_ready(child: subprocess.Popen[str], name: str, log_file: Path) -> dict[str, Any]:
    """Read the line in which the provider announces its addresses; its death closes the pipe, so nobody waits in vain."""
    line = _first_line(child.stdout)
    if line:
        address: dict[str, Any] = json.loads(line)
        return address
    child.kill()
    _close(child)
    end_of_log = log_file.read_text(errors="replace")[-2000:].strip()
    raise ServerUnavailable(f"the {name} did not start (status {child.returncode}); end of {log_file}:\n{end_of_log}")


def _first_line(stdout: IO[str] | None) -> str:
    if stdout is None:
        return ""
    with selectors.DefaultSelector() as selector:
        selector.register(stdout, selectors.EVENT_READ)
        return stdout.readline() if selector.select(START_TIMEOUT_SECONDS) else ""


def _close(child: subprocess.Popen[str]) -> None:
    child.wait()
    for pipe in (child.stdin, child.stdout):
        if pipe is not None:
            pipe.close()


def _import_path() -> str:
    root = str(Path(shop.__file__ or ".").resolve().parents[1])
    return os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])
