"""Health and metrics over HTTP, served by threads of their own: neither a blocked event loop nor a slow server keeps them from answering."""

import json
import logging
import socket
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from homing.errors import ConfigurationError

log = logging.getLogger("homing.process")

REQUEST_SECONDS = 3.0
"""How long a client may take to send its request."""

CLOSING_SECONDS = 0.1
"""How soon the server sees that it is to close."""

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Answer:
    """What a path answers: made from memory, within milliseconds, in any thread."""

    status: int
    body: bytes
    content_type: str = "application/json"


Answers = Mapping[str, Callable[[], Answer]]


def answer_json(value: object, *, good: bool) -> Answer:
    """A JSON document, with 200 when all is well and 503 otherwise."""
    status = HTTPStatus.OK if good else HTTPStatus.SERVICE_UNAVAILABLE
    return Answer(status, json.dumps(value, ensure_ascii=True).encode() + b"\n")


class HealthServer:
    """Answers GET on a few paths until it is closed."""

    def __init__(self, address: str, answers: Answers) -> None:
        """Bind; raises `ConfigurationError` when the address cannot be had."""
        host, port = _split(address)
        try:
            self._server = _Server((host, port), _handler(answers))
        except OSError as error:
            raise ConfigurationError(
                f"HOMING_HTTP_ADDRESS is {address!r}: {error.strerror or error}: set another one, or `off`"
            ) from error
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(CLOSING_SECONDS,), name="homing:http", daemon=True
        )

    @property
    def address(self) -> str:
        """Where it listens: the real port, when the one asked for was 0."""
        host, port = self._server.server_address[:2]
        return f"[{host!s}]:{port}" if self._server.address_family == socket.AF_INET6 else f"{host!s}:{port}"

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

    def close(self) -> None:
        """Stop answering and give the address back."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        super().__init__(address, handler)


def _handler(answers: Answers) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = REQUEST_SECONDS
        server_version = "homing"
        sys_version = ""

        def do_GET(self) -> None:
            self._send(with_body=True)

        def do_HEAD(self) -> None:
            self._send(with_body=False)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the library
            log.debug("http: " + format, *args)  # noqa: G003 - the format is the library's, not the client's

        def _send(self, *, with_body: bool) -> None:
            make = answers.get(self.path.partition("?")[0])
            answer = Answer(HTTPStatus.NOT_FOUND, b'{"error": "no such path"}\n') if make is None else _safely(make)
            self.send_response(answer.status)
            self.send_header("Content-Type", answer.content_type)
            self.send_header("Content-Length", str(len(answer.body)))
            self.send_header("Cache-Control", "no-store")
            self.end_headers()
            if with_body:
                self.wfile.write(answer.body)

    return Handler


def _safely(make: Callable[[], Answer]) -> Answer:
    try:
        return make()
    except Exception:
        log.exception("http: an answer could not be made")
        return Answer(HTTPStatus.INTERNAL_SERVER_ERROR, b'{"error": "see the log"}\n')


def _split(address: str) -> tuple[str, int]:
    host, separator, port = address.rpartition(":")
    if not separator or not port.isdecimal() or int(port) > 65535:
        raise ConfigurationError(f"HOMING_HTTP_ADDRESS is {address!r}: write it as host:port, or `off`")
    return host.strip("[]") or "127.0.0.1", int(port)
