"""A queue's keys in Redis as one value, so that two queues which should hold the same can be compared.

Nothing in it depends on where and when the queue was: the prefix is written as `P`, entries of the stream have no ids, and what is left of
a key's life is counted in whole hours. Times that scripts were given stand as they are: give both queues the same ones.
"""

import json
from collections.abc import Callable
from itertools import zip_longest
from typing import Any

from redis import Redis

QueueKeys = dict[str, Any]

_HOUR_MS = 3_600_000


def queue_keys(client: Redis, prefix: str, queue: str) -> QueueKeys:
    """Every key of the queue, by its name without prefix and queue. `client` decodes replies."""
    base = f"{prefix}:{queue}:"
    names = sorted(map(str, client.scan_iter(match=f"{base}*", count=10_000)))
    asked = client.pipeline(transaction=False)
    for name in names:
        asked.type(name)
        asked.pttl(name)
    facts = asked.execute()
    for name, kind in zip(names, facts[::2], strict=True):
        _ASK[kind](asked, name)
    contents = zip(names, facts[::2], facts[1::2], asked.execute(), strict=True)
    return {name.removeprefix(base): _without(prefix, _told(kind, left, raw)) for name, kind, left, raw in contents}


_ASK: dict[str, Callable[[Any, str], Any]] = {
    "hash": lambda pipeline, key: pipeline.hgetall(key),
    "list": lambda pipeline, key: pipeline.lrange(key, 0, -1),
    "set": lambda pipeline, key: pipeline.smembers(key),
    "stream": lambda pipeline, key: pipeline.xrange(key),
    "string": lambda pipeline, key: pipeline.get(key),
    "zset": lambda pipeline, key: pipeline.zrange(key, 0, -1, withscores=True),
}


def _told(kind: str, left_ms: int, raw: Any) -> Any:
    content: Any = raw
    match kind:
        case "hash":
            content = {name: json.loads(value) if name == "opts" else value for name, value in raw.items()}
        case "stream":
            content = [fields for _, fields in raw]
        case "set":
            content = sorted(raw)
    return content if left_ms < 0 else {"content": content, "hours": round(left_ms / _HOUR_MS)}


def _without(prefix: str, content: Any) -> Any:
    """The prefix is part of keys that values name, such as a child's parent."""
    match content:
        case str():
            return content.replace(f"{prefix}:", "P:")
        case dict():
            return {_without(prefix, name): _without(prefix, value) for name, value in content.items()}
        case list() | tuple():
            return [_without(prefix, value) for value in content]
        case _:
            return content


def differences(one: Any, other: Any, path: str = "") -> list[str]:
    """Where two such values differ, one line for each place."""
    match one, other:
        case dict(), dict():
            names = sorted({*one, *other}, key=str)
            inner = [differences(one.get(name), other.get(name), f"{path}/{name}") for name in names]
            return [line for lines in inner for line in lines]
        case _ if one == other:
            return []
        case list(), list():
            pairs = enumerate(zip_longest(one, other))
            return [line for at, (left, right) in pairs for line in differences(left, right, f"{path}/{at}")]
        case _:
            return [f"{path}: {one!r} is not {other!r}"]
