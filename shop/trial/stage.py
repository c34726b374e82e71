"""The running system: who is on stage, and how more of them get there."""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from homing.embedded import Servers
from shop.providers.process import KnobValue, ProviderProcess
from shop.trial.children import HOMING, Child, start, stop_all
from shop.trial.guard import Guard

HASTE = {"HOMING_LEASE": "5s", "HOMING_BEAT": "1s", "HOMING_RESCUE": "2s", "HOMING_SHUTDOWN_GRACE": "5s"}
"""Losses are noticed within seconds here; the defaults take half a minute."""


@dataclass(frozen=True, kw_only=True)
class Cast:
    """Who plays: how many processes of each kind, with which variables, and what is wrong with the partners from the beginning.

    They take their time; the gateway now and then does what it was asked and says that it failed.
    """

    apis: int = 1
    relays: int = 1
    workers: int = 2
    environment: Mapping[str, str] = field(default_factory=lambda: HASTE)
    postgres_settings: Mapping[str, str] = field(default_factory=dict)
    gateway: Mapping[str, KnobValue] = field(default_factory=lambda: {"latency_ms": 120, "fail_after_effect": 0.05})
    carrier: Mapping[str, KnobValue] = field(default_factory=lambda: {"latency_ms": 60, "throttle": 60})
    mailbox: Mapping[str, KnobValue] = field(default_factory=lambda: {"latency_ms": 80})


@dataclass
class Crew:
    """The processes of one kind; `members` changes as they end and others take their places, each under a name of its own."""

    role: str
    begin: Callable[[str], Child]
    members: list[Child] = field(default_factory=list)
    started: int = 0

    def add(self) -> Child:
        """Start one more."""
        self.started += 1
        child = self.begin(f"{self.role}-{self.started}")
        self.members.append(child)
        return child

    def kill(self, member: Child) -> None:
        """SIGKILL: no last word, no clean-up."""
        self.members.remove(member)
        member.kill()


@dataclass(kw_only=True)
class Stage:
    """Servers, partners, and our own processes between them."""

    folder: Path
    servers: Servers
    gateway: ProviderProcess
    carrier: ProviderProcess
    mailbox: ProviderProcess
    environment: Mapping[str, str]
    guard: Guard
    apis: Crew = field(init=False)
    relays: Crew = field(init=False)
    workers: Crew = field(init=False)
    clean_ups: Crew = field(init=False)
    dashboards: Crew = field(init=False)

    def __post_init__(self) -> None:
        self.apis = Crew("api", self._start_api)
        self.relays = Crew("relay", lambda name: self.start(name, [HOMING, "relay"]))
        self.workers = Crew("worker", lambda name: self.start(name, [HOMING, "worker", "--no-relay"]))
        self.clean_ups = Crew("clean-up", lambda name: self.start(name, _python("shop.maintenance", "--every=5")))
        pages = [HOMING, "dashboard", "--port=0", f"--users={self.users_file}"]
        self.dashboards = Crew("dashboard", lambda name: self.start(name, pages))

    @property
    def logs(self) -> Path:
        """Where every process writes its log."""
        return self.folder / "logs"

    @property
    def users_file(self) -> Path:
        """Who may log in at the dashboard."""
        return self.folder / "dashboard-users"

    @property
    def crews(self) -> list[Crew]:
        """Those who end first come first."""
        return [self.workers, self.apis, self.relays, self.clean_ups, self.dashboards]

    @property
    def children(self) -> list[Child]:
        """All processes of our own."""
        return [child for crew in self.crews for child in crew.members]

    @property
    def api_urls(self) -> list[str]:
        """The APIs that take orders now, the oldest first; empty while all are down."""
        return [api.address for api in self.apis.members if api.running and api.address]

    def start(self, name: str, command: list[str], ready_file: Path | None = None) -> Child:
        """Start a process of this stage."""
        return start(name, command, self.environment, self.logs, self.guard, ready_file=ready_file)

    def stop(self) -> None:
        """Stop our own processes."""
        stop_all(self.children)

    def _start_api(self, name: str) -> Child:
        ready_file = self.folder / f"{name}.json"
        return self.start(name, _python("shop.api", "--port=0", f"--ready-file={ready_file}"), ready_file)


def _python(module: str, *arguments: str) -> list[str]:
    return [sys.executable, "-m", module, *arguments]
