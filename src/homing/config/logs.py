"""Log lines that know which job they belong to, as JSON or for people; no value can break or forge a line."""

import json
import logging
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Literal, TextIO
from uuid import UUID

from pydantic_core import PydanticSerializationError, to_json

from homing.config.tidying import LONG_LINE, is_tidy, tells_no_secret, tidy, tidy_text

LogFormat = Literal["auto", "json", "pretty"]

log_context: ContextVar[Mapping[str, object]] = ContextVar("homing_log_context", default=MappingProxyType({}))
"""What is added to every line of the running job: app, worker, queue, job, job_id, attempt, trace_id, span_id, event_id, consumer, topic."""

_dump = json.JSONEncoder(ensure_ascii=False, default=str).encode  # made once: `json.dumps` makes one for every line
_PLAIN = frozenset({str, int, float, bool, type(None)})
_FIRST = '{"message":'

_ALIKE = frozenset({"app", "worker"})
"""What is the same in all lines of a process, and tells people nothing."""

_OWN_FIELDS = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "context"}


@contextmanager
def log_fields(**fields: object) -> Iterator[None]:
    """Add fields to every line written inside the block, by this task and what it starts."""
    token = log_context.set(MappingProxyType({**log_context.get(), **fields}))
    try:
        yield
    finally:
        log_context.reset(token)


def configure_logging(level: str, log_format: LogFormat = "auto", stream: TextIO | None = None) -> None:
    """Send every line of this process from `level` up to `stream` (default: stderr); calling it again replaces the set-up."""
    target = sys.stderr if stream is None else stream
    pretty = log_format == "pretty" or (log_format == "auto" and target.isatty())
    handler = Writer(target)
    handler.lines = PrettyFormatter() if pretty else JsonFormatter()
    handler.setFormatter(handler.lines)
    handler.addFilter(_add_context)
    root = logging.getLogger()
    for old in [old for old in root.handlers if isinstance(old, Writer)]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(level)


class JsonFormatter(logging.Formatter):
    """One JSON object a line; a traceback is one of its values."""

    def __init__(self) -> None:
        super().__init__()
        self._second = (0, "")

    def format(self, record: logging.LogRecord) -> str:
        error = {"error": self.formatException(record.exc_info)} if record.exc_info else {}
        return self.line(record.created, record.levelname, record.name, record.getMessage(), _fields(record) | error)

    def line(self, created: float, level: str, logger: str, message: str, fields: Mapping[str, object]) -> str:
        """One line."""
        line = {
            "time": self._time(created),
            "level": level.lower(),
            "logger": logger,
            "message": message,
            **fields,
        }
        text = _json(line)  # in which nothing below a space is left
        if not is_tidy(text):
            text = _json(tidy(line))
        return text if text.isascii() and "\x7f" not in text else _escape(text, _json_escape)

    def lines_of(self, created: float, mould: "Mould", lines: Sequence[Mapping[str, object]]) -> list[str]:
        """Lines of one moment and one mould: only what they do not share is put into words for each, all of it at once."""
        try:
            own = to_json(lines).decode()
        except PydanticSerializationError:  # as below
            own = ""
        parts = own[len(_FIRST) + 1 : -2].split("}," + _FIRST)  # which stands in no text: there its quotes are escaped
        is_usual = own.isascii() and "\x7f" not in own and tells_no_secret(own) and max(map(len, parts)) <= LONG_LINE
        if own and is_usual and mould.is_usual:
            head = f'{{"time":"{self._time(created)}",{mould.json},"message":'
            return [f"{head}{part}}}" for part in parts]
        return [self.line(created, mould.level, mould.logger, *mould.take_apart(each)) for each in lines]

    def _time(self, moment: float) -> str:
        """ISO 8601 to the millisecond; what lines of one second share is written once."""
        second = int(moment)
        known, text = self._second
        if known != second:
            text = datetime.fromtimestamp(second, UTC).isoformat()[:-6]
            self._second = (second, text)
        return f"{text}.{int((moment - second) * 1000):03d}+00:00"


class PrettyFormatter(logging.Formatter):
    """Time, level, message and fields on one line; a traceback follows, indented."""

    def format(self, record: logging.LogRecord) -> str:
        line = self.line(record.created, record.levelname, record.name, record.getMessage(), _fields(record))
        if not record.exc_info:
            return line
        trace = tidy_text(self.formatException(record.exc_info)).split("\n")
        return "\n".join([line, *(f"    {_escape(part, _text_escape)}" for part in trace)])

    def line(self, created: float, level: str, logger: str, message: str, fields: Mapping[str, object]) -> str:
        """The first line, which is the only one without a traceback."""
        del logger  # its name tells people nothing that the message does not
        at = datetime.fromtimestamp(created, UTC).astimezone().strftime("%H:%M:%S")
        told = {name: value for name, value in fields.items() if name not in _ALIKE}
        line = _pretty(message, told)
        if not is_tidy(line):
            line = _pretty(tidy_text(message), tidy(told))
        return _escape(f"{at} {level:<7} {line}", _text_escape)

    def lines_of(self, created: float, mould: "Mould", lines: Sequence[Mapping[str, object]]) -> list[str]:
        """The lines of one moment and one mould."""
        return [self.line(created, mould.level, mould.logger, *mould.take_apart(each)) for each in lines]


class Mould:
    """What many lines have in common, put into words once. A line of it is made without a record: its message, and then the fields of its own,
    which are texts, ids and finite numbers."""  # noqa: D205, D209 - one thought

    def __init__(self, level: str, logger: str, common: Mapping[str, object]) -> None:
        self.level = level
        self.logger = logger
        self.common = common
        self.json = _json({"level": level.lower(), "logger": logger, **common})[1:-1]
        self.is_usual = self.json.isascii() and "\x7f" not in self.json and is_tidy(self.json)

    def take_apart(self, line: Mapping[str, object]) -> tuple[str, Mapping[str, object]]:
        """The message of a line, and all its fields."""
        own = {name: str(value) if isinstance(value, UUID) else value for name, value in line.items()}
        fields = {**self.common, **own}
        return str(fields.pop("message")), fields


def only_writer(logger: logging.Logger) -> "Writer | None":
    """Ours, where nobody else hears what `logger` logs, has a filter, or makes records of another kind; else `None`."""
    if logger.filters or logging.getLogRecordFactory() is not logging.LogRecord:
        return None
    handlers, heard = list(logger.handlers), logger
    while heard.propagate and heard.parent is not None:
        heard = heard.parent
        handlers += heard.handlers
    only = handlers[0] if len(handlers) == 1 else None
    return only if isinstance(only, Writer) and only.is_as_made() else None


class Writer(logging.StreamHandler[TextIO]):
    """Our handler, so that a second set-up can find it."""

    lines: "JsonFormatter | PrettyFormatter"

    def is_as_made(self) -> bool:
        """Whether nobody has changed what it lets through, or how it writes."""
        return self.formatter is self.lines and self.level == logging.NOTSET and self.filters == [_add_context]

    def write(self, mould: Mould, lines: Sequence[Mapping[str, object]]) -> None:
        """Write lines of one moment and one mould, and let them go at once; `message` is the first field of each."""
        try:
            text = "\n".join(self.lines.lines_of(time.time(), mould, lines))
            with self.lock or nullcontext():
                self.stream.write(f"{text}\n")
                self.stream.flush()
        except Exception:  # noqa: BLE001 - as below
            self.handleError(logging.makeLogRecord({"name": mould.logger, "msg": "%d lines", "args": (len(lines),)}))

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line and let it go at once."""
        try:
            self.stream.write(f"{self.format(record)}\n")
            self.stream.flush()
        except Exception:  # noqa: BLE001 - as logging wants it: a line that cannot be written must not fail the work it tells of
            self.handleError(record)


def _pretty(message: str, fields: Mapping[str, object]) -> str:
    return message + "".join(f" {name}={value}" for name, value in fields.items())


def _add_context(record: logging.LogRecord) -> bool:
    record.context = log_context.get()  # never changed, only replaced
    return True


def _fields(record: logging.LogRecord) -> dict[str, object]:
    """The context's fields, then those the line was given itself (`extra=`)."""
    context: Mapping[str, object] = getattr(record, "context", {})
    extra = {name: value for name, value in vars(record).items() if name not in _OWN_FIELDS}
    return {**context, **extra}


def _json(line: dict[str, object]) -> str:
    """The line as JSON. Pydantic's writer is the faster one, and trusted with plain values only: what else is logged is written as `str` has it."""
    if not _PLAIN.issuperset(map(type, line.values())):
        return _dump(line)
    try:
        return to_json(line, inf_nan_mode="constants").decode()
    except PydanticSerializationError:  # a lone surrogate
        return _dump(line)


def _escape(text: str, escape: Callable[[str], str]) -> str:
    """Write what is not printable (line ends, terminal codes, lone surrogates, invisible marks) as its number."""
    return text if text.isprintable() else "".join(part if part.isprintable() else escape(part) for part in text)


def _text_escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def _json_escape(character: str) -> str:
    return json.dumps(character)[1:-1]
