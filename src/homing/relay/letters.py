"""From a delivery's row to the death of it, for whoever buries without a run. Pure."""

from homing.deadletters.deadletters import Death, Kind
from homing.deadletters.report import ErrorReport
from homing.ids import DeliveryKey
from homing.ledger.ledger import Row
from homing.relay.jobs import data_of


def key_of(row: Row) -> DeliveryKey:
    """Which delivery a row is about."""
    return DeliveryKey(row["event_id"], row["consumer"], row["generation"])


def death_of(row: Row, kind: Kind, error: ErrorReport, *, attempts_made: int = 0) -> Death:
    """The death of a delivery, with the data that its job had or would have. `row` is of `route.sql` or `payloads.sql`."""
    return Death(
        event_id=row["event_id"],
        consumer=row["consumer"],
        generation=row["generation"],
        queue=row["queue"],
        job_name=row["job_name"],
        job_id=key_of(row).job_id,
        topic="",
        kind=kind,
        data=data_of(row),
        error=error,
        attempts_made=attempts_made,
    )
