"""The ledger's statements, by verb."""

from collections.abc import Mapping, Sequence

from pydantic_core import to_json

from homing.schema.statement import load

_HERE = "homing.ledger"

SETTLE = load(_HERE, "settle")
SETTLE_JOB = load(_HERE, "settle_job")
FINISH_SETTLE = load(_HERE, "finish_settle")
SETTLE_GROUP = load(_HERE, "settle_group")
SETTLE_JOB_GROUP = load(_HERE, "settle_job_group")
READ = load(_HERE, "read")
IDENTIFY = load(_HERE, "identify")
EPOCHS = load(_HERE, "epochs")
MIRROR = load(_HERE, "mirror")
LOOK = load(_HERE, "look")
LOOKED = load(_HERE, "looked")
SWEEP = load(_HERE, "sweep")
YIELD_SWEEP = load(_HERE, "yield_sweep")
QUEUES = load(_HERE, "queues")
PAYLOADS = load(_HERE, "payloads")
BEAT = load(_HERE, "beat")
LEAVE = load(_HERE, "leave")
ANSWER = load(_HERE, "answer")
ACT = load(_HERE, "act")


def as_rows(rows: Sequence[Mapping[str, object]]) -> str:
    """What a statement takes as `rows`: JSON, written and read as a whole, where a driver looks at arrays value by value."""
    return to_json(rows).decode()
