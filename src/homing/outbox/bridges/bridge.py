"""What a driver has to offer so that `record` and `once` can write through its connections."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from homing.outbox.work import Work


@dataclass(frozen=True, slots=True, kw_only=True)
class Bridge:
    """How to write through one kind of connection, in the transaction it has open.

    `write` takes the connection and the work, executes its one statement and neither commits nor rolls back, and returns the work's
    answer; for an asynchronous `kind` it returns a coroutine of it that has touched nothing yet. A `write` of a kind that `chooses_bind` takes `bind_arguments` too.
    """

    kind: type[Any]
    write: Callable[..., Any]
    is_async: bool
    chooses_bind: bool = False

    def run(self, tx: object, work: Work[Any], bind_arguments: Mapping[str, Any] | None) -> Any:
        """Write the work through `tx`."""
        return self.write(tx, work, bind_arguments) if self.chooses_bind else self.write(tx, work)
