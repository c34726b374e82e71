"""`python -m homing.worker.children.child`: calls `cpu=True` handlers, one after the other, for the worker that started it."""

from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

from homing.app.handlers import Job
from homing.config.logs import log_fields
from homing.trace import Trace, enter_trace
from homing.worker.children.failures import describe
from homing.worker.children.frames import Frame
from homing.worker.children.hosting import Host
from homing.worker.children.names import find
from homing.worker.endings import Raised, Returned, returned


def main() -> None:
    """Serve until the parent wants no more."""
    host = Host.open()
    for request in host.requests():
        with log_fields(**request["log"]), enter_trace(Trace(**request["trace"])):
            _serve(host, request)


def _serve(host: Host, request: Frame) -> None:
    try:
        function, event_class = find(request["function"]), find(request["event"])
    except BaseException as error:  # noqa: BLE001 - importing runs anybody's code; the parent is told
        host.answer({"broken": describe(error)})
        return
    host.tell({"began": True})
    ending = _call(host, function, event_class, request)
    host.answer({"returned": ending.result} if isinstance(ending, Returned) else {"raised": describe(ending.error)})


def _call(host: Host, function: Any, event_class: Any, request: Frame) -> Returned | Raised:
    try:
        event = event_class.decode(request["payload"], event_id=UUID(request["event_id"]), version=request["version"])
        arguments = {name: _job(host, request["job"]) for name in request["job_parameters"]}
        return returned(function(event, **arguments))
    except BaseException as error:  # noqa: BLE001 - even SystemExit is only this job's failure; it is judged by the parent
        return Raised(error)


def _job(host: Host, view: Frame) -> Job:
    types = {"event_id": UUID(view["event_id"]), "recorded_at": datetime.fromisoformat(view["recorded_at"])}
    return Job(**view | types, _tell=partial(host.note, host.answered))


if __name__ == "__main__":
    main()
