"""Whether this configuration makes spans, as far as a command can tell that has only imported the app."""

from homing.config.settings import Settings
from homing.trace import find_spans
from homing.trace.conventions import SCHEMA_URL
from homing.upkeep.doctor.finding import Finding, ok


def examine_tracing(settings: Settings) -> Finding:
    """Nothing is wrong either way; but who looks for spans in vain learns why."""
    if find_spans() is None:
        return ok(
            "tracing",
            "importing the app sets up no OpenTelemetry SDK: no spans, unless a process sets one up later or is started by opentelemetry-instrument",
        )
    version = SCHEMA_URL.rpartition("/")[2]
    relation = {"link": "are linked to", "parent": "are children of"}[settings.trace_relation]
    return ok(
        "tracing", f"an OpenTelemetry SDK is set up (conventions {version}); runs {relation} what created their events"
    )
