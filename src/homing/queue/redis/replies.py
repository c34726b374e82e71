"""What the server says when it refuses, sorted by what the reader should do about it."""

import re

from homing.errors import ConfigurationError, HomingError, ServerUnavailable, UnsuitableServer

# Redis 6.2 wraps the answer of a command inside a script: "ERR Error running script …: -OOM command not allowed".
_WRAPPED = re.compile(r"[ :]-([A-Z]{3,}) ")


class WrongServer(ServerUnavailable):
    """Another server has the part that this one had: the connection to it is given up, and the next one asks who it is."""


_SENTENCES: dict[type[HomingError], dict[str, str]] = {
    WrongServer: {
        "READONLY": "is a read-only replica, so a failover is under way or the URL points at the wrong node",
        "UNBLOCKED": "is changing its role, from master to replica or back",
        "MASTERDOWN": "is a replica without a master",
        "MOVED": "does not hold these keys: another node of the cluster does",
        "ASK": "is handing these keys to another node of the cluster",
        "CLUSTERDOWN": "belongs to a cluster that is down, or was cut off from it",
    },
    ServerUnavailable: {
        "LOADING": "is still loading its data",
        "OOM": "has reached maxmemory and refuses writes: give it more memory or remove finished jobs",
        "BUSY": "is busy with a long script",
        "UNKILLABLE": "is busy with a long script",
        "TRYAGAIN": "is moving keys between nodes",
        "MISCONF": "cannot write to its disk and refuses writes",
        "NOREPLICAS": "has too few replicas and refuses writes",
        "ERR max number of clients": "has no room for another connection: raise maxclients",
    },
    ConfigurationError: {
        "NOAUTH": "asks for a password: put it into the URL",
        "WRONGPASS": "refuses the user or password of the URL: correct them",
        "ERR AUTH": "has no password set for this user: take it out of the URL",
        "ERR invalid DB": "does not have the database of the URL",
        "ERR DB index": "does not have the database of the URL",
        "NOPERM": "does not let the user of the URL do what Homing needs: grant it",
    },
    UnsuitableServer: {
        "CROSSSLOT": "is part of a cluster and was given keys of several nodes: write its URL as redis+cluster://…",
    },
}


class ResponseError(HomingError):
    """The server refused one command; `code` is the first word of its answer, such as `NOSCRIPT` or `WRONGTYPE`."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.code = text.partition(" ")[0]


def error_of_reply(text: str) -> HomingError:
    """The exception for an error reply: of that call only, whatever else is in flight."""
    wrapped = _WRAPPED.search(text) if text.startswith("ERR ") else None
    said = f"{wrapped[1]} " if wrapped else f"{text} "
    for error, sentences in _SENTENCES.items():
        for code, sentence in sentences.items():
            if said.startswith(f"{code} "):
                return error(f"Redis {sentence} ({text})")
    return ResponseError(text)
