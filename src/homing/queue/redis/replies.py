"""What the server says when it refuses, sorted by what the reader should do about it."""

import re

from homing.errors import ConfigurationError, HomingError, ServerUnavailable, UnsuitableServer

# Redis 6.2 wraps the answer of a command inside a script: "ERR Error running script …: -OOM command not allowed".
_WRAPPED = re.compile(r"[ :]-([A-Z]{3,}) ")

_LATER = {
    "LOADING": "is still loading its data",
    "READONLY": "is a read-only replica, so a failover is under way or the URL points at the wrong node",
    "OOM": "has reached maxmemory and refuses writes: give it more memory or remove finished jobs",
    "MASTERDOWN": "is a replica without a master",
    "BUSY": "is busy with a long script",
    "CLUSTERDOWN": "belongs to a cluster that is down",
    "TRYAGAIN": "is moving keys between nodes",
    "MISCONF": "cannot write to its disk and refuses writes",
    "NOREPLICAS": "has too few replicas and refuses writes",
    "UNKILLABLE": "is busy with a long script",
}
_SIGN_IN = {"NOAUTH", "WRONGPASS", "NOPERM"}
_CLUSTER = {"MOVED", "ASK", "CROSSSLOT"}


class ResponseError(HomingError):
    """The server refused one command; `code` is the first word of its answer, such as `NOSCRIPT` or `WRONGTYPE`."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.code = text.partition(" ")[0]


def error_of_reply(text: str) -> HomingError:
    """The exception for an error reply: of that call only, whatever else is in flight."""
    code = text.partition(" ")[0]
    if code == "ERR" and (wrapped := _WRAPPED.search(text)):
        code = wrapped[1]
    if code in _LATER:
        return ServerUnavailable(f"Redis {_LATER[code]} ({text})")
    if text.startswith("ERR max number of clients"):
        return ServerUnavailable(f"Redis has no room for another connection: raise maxclients ({text})")
    if code in _SIGN_IN:
        return ConfigurationError(f"Redis refuses the user or password of the URL: correct them ({text})")
    if text.startswith("ERR AUTH"):
        return ConfigurationError(f"Redis has no password set for this user: take it out of the URL ({text})")
    if code in _CLUSTER:
        return UnsuitableServer(f"this server is part of a Redis Cluster, which Homing does not support ({text})")
    return ResponseError(text)
