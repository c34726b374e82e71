"""The child's side: requests in, answers out, and an end that comes with the parent's, whatever the main thread does."""

import contextlib
import ctypes
import faulthandler
import logging
import os
import queue
import resource
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from homing.app.handlers import Told
from homing.config.logs import configure_logging
from homing.worker.children.frames import Frame, pack, receive

log = logging.getLogger("homing.child")

LEAVING_SECONDS = 5.0
"""How long a child that has nothing to do may take to end by itself."""

_KILL_WITH_PARENT = 1  # PR_SET_PDEATHSIG of Linux
_FIRST_TO_GO = "1000"  # the kernel, short of memory, ends this process and not the worker


class Host:
    """Takes one request at a time. When the parent is gone, an idle child leaves, and a busy one is killed with all it started."""

    def __init__(self) -> None:
        self._connection = _take_stdin()
        self._requests: queue.SimpleQueue[Frame | None] = queue.SimpleQueue()
        self._busy = False
        self._speaking = threading.Lock()
        self.answered = 0

    @classmethod
    def open(cls) -> "Host":
        """Make this process a child: deaf to the signals of the group, tied to its parent, set up by the first message."""
        host = cls()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, _stay)
        _die_with_parent()
        _be_first_to_go()
        faulthandler.enable()
        setup = receive(host._connection)
        if setup is None:
            sys.exit(0)
        sys.path[:] = setup["sys_path"]
        configure_logging(setup["log_level"], setup["log_format"])
        threading.Thread(target=host._listen, name="homing:parent", daemon=True).start()
        return host

    def requests(self) -> Iterator[Frame]:
        """The parent's requests, until it wants no more."""
        while (request := self._requests.get()) is not None:
            yield request

    def tell(self, frame: Frame) -> None:
        """Say something to the parent about the request that is worked on; any thread may."""
        with self._speaking:
            self._send(frame)

    def note(self, request: int, kind: Told, text: str) -> None:
        """Pass on what a run tells about itself, by the number that `answered` had when it began; after its answer it is nobody's."""
        with self._speaking:
            if request == self.answered:
                self._send({"note": [kind, text]})

    def answer(self, frame: Frame) -> None:
        """The last word about a request."""
        for stream in (sys.stdout, sys.stderr):
            _flush(stream)
        self._busy = False
        with self._speaking:
            self.answered += 1
            self._send(frame | {"rss_mb": resident_mb()})

    def _send(self, frame: Frame) -> None:
        with contextlib.suppress(ConnectionError):  # it is gone, and so shall we be
            self._connection.sendall(pack(frame))

    def _listen(self) -> None:
        while (frame := receive(self._connection)) is not None:
            self._busy = True
            self._requests.put(frame)
        if not self._busy:
            self._requests.put(None)
            time.sleep(LEAVING_SECONDS)
        os.killpg(0, signal.SIGKILL)


def resident_mb() -> float:
    """The memory that this process holds, in MiB; on macOS the most that it ever held."""
    if sys.platform == "linux":
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def _take_stdin() -> socket.socket:
    """The parent speaks over descriptor 0; nothing that the handler starts or reads shall get hold of it."""
    connection = socket.socket(fileno=os.dup(0))
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return connection


def _stay(*_: object) -> None:
    """A function and not SIG_IGN, which the programs that a handler starts would inherit."""


def _die_with_parent() -> None:
    """For code that keeps the interpreter to itself, so that no thread of ours could see the parent's end."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_KILL_WITH_PARENT, signal.SIGKILL)


def _be_first_to_go() -> None:
    if sys.platform != "linux":
        return
    try:
        Path("/proc/self/oom_score_adj").write_text(_FIRST_TO_GO, encoding="ascii")
    except OSError as error:
        log.debug("the kernel may end the worker before this child: %s", error)


def _flush(stream: object) -> None:
    """What a handler printed appears with its job, not when the child ends; it may have closed the stream."""
    try:
        stream.flush()  # type: ignore[attr-defined] # a handler may put anything there, None included
    except Exception as error:  # noqa: BLE001 - as above; the job's result counts
        log.debug("output of the handler is lost: %s", error)
