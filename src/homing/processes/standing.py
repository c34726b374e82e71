"""How a process stands, judged from time stamps: any thread may ask, and the answer waits for no server and no event loop."""

from collections.abc import Callable, Sequence

from homing.clock import Clock, SystemClock
from homing.ledger.ledger import LEDGER
from homing.processes.watchdog import Watchdog
from homing.service import Loop, Outages
from homing.worker.health import Blockage, Health, judge_health

ENGINE_WORDS = "Redis"
"""What people call the engine's server, which errors leave unnamed."""

DISPENSABLE = frozenset({"listen"})
"""Loops without which all work is done, only later: a server that they alone cannot reach is not away."""


class Standing:
    """The health of one process, from its start to its end. Before `watch` it starts: it lives and is not ready."""

    def __init__(self, who: str, clock: Clock | None = None) -> None:
        self._who = who
        self._clock = clock or SystemClock()
        self._loops: Sequence[Loop] = ()
        self._watchdog: Watchdog | None = None
        self._outages = Outages()
        self._is_paused: Callable[[], bool] = bool
        self._draining = False

    def watch(
        self, loops: Sequence[Loop], watchdog: Watchdog, outages: Outages, is_paused: Callable[[], bool] = bool
    ) -> None:
        """Judge by these from now on. `is_paused`: whether nothing is claimed because the ledger does not answer."""
        self._loops, self._outages, self._is_paused = loops, outages, is_paused
        self._watchdog = watchdog

    def drain(self) -> None:
        """The stop has begun: nothing new is taken, and nobody should end the process for that."""
        self._draining = True

    @property
    def loops(self) -> Sequence[Loop]:
        """Everything that turns in the background."""
        return self._loops

    def away(self) -> list[str]:
        """The servers that do not answer this process, by the names that errors give them."""
        return [server for server, waiting in self._outages.waiting().items() if waiting - DISPENSABLE]

    def health(self) -> Health:
        """Whether the process lives, and whether it works."""
        watchdog = self._watchdog
        if watchdog is None:
            return Health(live=True, ready=False, reasons=(f"the {self._who} is starting",))
        now, blocked_since = self._clock.monotonic(), watchdog.blocked_since
        awake_since = watchdog.awake_since if blocked_since is None else now
        blockage = None if blocked_since is None else Blockage(now - blocked_since, watchdog.patience_seconds)
        looks = [loop.look(now, awake_since) for loop in self._loops]
        return judge_health(
            [look for look in looks if not look.away or look.name not in DISPENSABLE or look.trouble],
            draining=self._draining,
            paused=self._is_paused(),
            away=[server_words(server) for server in self.away()],
            blockage=blockage,
            who=self._who,
        )


def server_words(server: str) -> str:
    """A server's name for people."""
    return server or ENGINE_WORDS


def backend_label(server: str, engine: str) -> str:
    """The same as a metric's label."""
    return "postgres" if server == LEDGER else engine
