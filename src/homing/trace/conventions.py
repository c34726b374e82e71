"""The words of OpenTelemetry's semantic conventions for messaging, pinned: they are still in development and may change their names."""

import os
from enum import Enum

SCHEMA_URL = "https://opentelemetry.io/schemas/1.43.0"
"""The version of the conventions whose names we use."""

SYSTEM = "homing"

MESSAGE_ID = "messaging.message.id"
CONVERSATION_ID = "messaging.message.conversation_id"
BATCH_COUNT = "messaging.batch.message_count"
CONSUMER = "messaging.consumer.group.name"
ERROR_TYPE = "error.type"
SERVER_ADDRESS = "server.address"
SERVER_PORT = "server.port"

TOPIC = "homing.topic"
JOB_NAME = "homing.job.name"
ATTEMPT = "homing.attempt"
GENERATION = "homing.generation"
OUTCOME = "homing.outcome"
ENGINE = "homing.engine"

OPT_IN = "OTEL_SEMCONV_STABILITY_OPT_IN"


class Operation(Enum):
    """What a span stands for: `type` in the words of the conventions, `kind` of OpenTelemetry, `old` as the name before 1.26."""

    RECORD = "record", "create", "PRODUCER", "create"
    DISPATCH = "dispatch", "send", "CLIENT", "publish"
    PROCESS = "process", "process", "CONSUMER", "process"
    SETTLE = "settle", "settle", "CLIENT", "settle"

    def __init__(self, verb: str, operation_type: str, kind: str, old: str) -> None:
        self.verb = verb
        self.type = operation_type
        self.kind = kind
        self.old = old


def asks_for_both() -> bool:
    """Whether `OTEL_SEMCONV_STABILITY_OPT_IN` wants the older attribute beside the newer ones (`messaging/dup`)."""
    return "messaging/dup" in {word.strip() for word in os.environ.get(OPT_IN, "").split(",")}


def server_attributes(address: tuple[str, int | None] | None) -> dict[str, str | int | None]:
    """Which server the messages go to, where it is known."""
    host, port = address or (None, None)
    return {SERVER_ADDRESS: host, SERVER_PORT: port}


def attributes_of(operation: Operation, destination: str, *, both: bool) -> dict[str, str | int]:
    """What every span of an operation says."""
    attributes: dict[str, str | int] = {
        "messaging.system": SYSTEM,
        "messaging.operation.name": operation.verb,
        "messaging.operation.type": operation.type,
        "messaging.destination.name": destination,
    }
    return attributes | {"messaging.operation": operation.old} if both else attributes
