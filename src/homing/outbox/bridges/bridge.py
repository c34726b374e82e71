"""What a driver has to offer so that `record` can write through its connections."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Bridge:
    """How to write a recording through one kind of connection, in the transaction it has open.

    `write` takes the connection and the recording, executes one statement and neither commits nor rolls back; for an asynchronous
    `kind` it returns a coroutine that has touched nothing yet. A `write` of a kind that `chooses_bind` takes `bind_arguments` too.
    """

    kind: type[Any]
    write: Callable[..., Coroutine[Any, Any, None] | None]
    is_async: bool
    chooses_bind: bool = False
