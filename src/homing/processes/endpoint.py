"""What a process answers over HTTP: `/livez`, `/readyz`, `/verdict` and `/metrics`, all from memory."""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime

from prometheus_client import CollectorRegistry, generate_latest

from homing.config.settings import Settings
from homing.errors import ConfigurationError
from homing.operations.collector import Collector
from homing.operations.verdict import Level, Verdict
from homing.processes.http import METRICS_TYPE, Answer, Answers, HealthServer, answer_json
from homing.processes.standing import Standing
from homing.worker.health import Health

log = logging.getLogger("homing.process")

LIVE, READY, VERDICT, METRICS = "/livez", "/readyz", "/verdict", "/metrics"


def answers_of(standing: Standing, collector: Collector, registry: CollectorRegistry) -> Answers:
    """The answers of one process about itself; the collector is in the registry."""
    return {
        LIVE: lambda: answer_live(standing.health()),
        READY: lambda: answer_ready(standing.health()),
        VERDICT: lambda: answer_verdict(collector.verdict()),
        METRICS: lambda: answer_metrics(generate_latest(registry)),
    }


def answer_live(health: Health) -> Answer:
    """200 as long as a restart would not help."""
    return answer_json({"live": health.live, "reasons": health.reasons}, good=health.live)


def answer_ready(health: Health) -> Answer:
    """200 while new work is taken."""
    return answer_json({"ready": health.ready, "reasons": health.reasons}, good=health.ready)


def answer_verdict(verdict: Verdict) -> Answer:
    """503 when there is work and it stands still."""
    return answer_json(describe_verdict(verdict), good=verdict.level is not Level.STALLED)


def describe_verdict(verdict: Verdict) -> Mapping[str, object]:
    """The document of a verdict."""
    reasons = [
        {"level": reason.level.name.lower(), "text": reason.text, "remedy": reason.remedy} for reason in verdict.reasons
    ]
    return {"level": verdict.level.name.lower(), "reasons": reasons, "at": datetime.now(UTC).isoformat()}


def answer_metrics(exposition: bytes) -> Answer:
    """The text that Prometheus reads."""
    return Answer(200, exposition, METRICS_TYPE)


@contextmanager
def served(settings: Settings, answers: Answers) -> Iterator[str | None]:
    """Serve inside the block; where, or `None` when it is off.

    An address that is taken is an error where somebody chose it. The default one may be another worker's on the same machine: then
    this process serves nothing, and says so.
    """
    server = _bind(settings, answers)
    if server is None:
        yield None
        return
    server.start()
    try:
        yield server.address
    finally:
        server.close()


def _bind(settings: Settings, answers: Answers) -> HealthServer | None:
    if settings.http_address == "off":
        return None
    try:
        return HealthServer(settings.http_address, answers)
    except ConfigurationError as error:
        if "http_address" in settings.model_fields_set:
            raise
        log.warning("health and metrics of this process are not served: %s", error)
        return None


def where(address: str | None) -> str:
    """The end of the line that says that a process is ready."""
    return "" if address is None else f", health and metrics at http://{address}"
