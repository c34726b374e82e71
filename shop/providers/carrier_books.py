"""The carrier's history: its shipments, and a log of every request with the moment it arrived."""

from collections import Counter
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter
from pydantic.alias_generators import to_camel

from shop.providers.journal import Journal
from shop.providers.rate import busiest_second


class Shipment(BaseModel):
    """A parcel that was really taken; `at` is in seconds since the epoch."""

    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True)

    kind: Literal["shipment"] = "shipment"
    tracking_number: str
    reference: str
    address: str | dict[str, str]
    weight_grams: int
    at: float

    def view(self) -> dict[str, Any]:
        return self.model_dump(by_alias=True, exclude={"kind", "at"})


class Departure(BaseModel):
    """One answered request, as the journal keeps it."""

    kind: Literal["request"] = "request"
    at: float
    operation: str
    api_key: str | None
    status: int


class Forgotten(BaseModel):
    """Everything before this entry was thrown away."""

    kind: Literal["forgotten"] = "forgotten"


@dataclass(slots=True)
class Visit:
    """One request; `at` is when it arrived (seconds since the epoch), the status is None until it is answered."""

    at: float
    operation: str
    api_key: str | None
    status: int | None = None

    def view(self) -> dict[str, Any]:
        return {"at": self.at, "operation": self.operation, "apiKey": self.api_key, "status": self.status}


_Entry = Annotated[Shipment | Departure | Forgotten, Field(discriminator="kind")]
_entries: TypeAdapter[Shipment | Departure | Forgotten] = TypeAdapter(_Entry)


class CarrierBooks:
    """Shipments by reference and the request log, rebuilt from a journal."""

    def __init__(self, journal: Journal) -> None:
        self.shipments: dict[str, Shipment] = {}
        self._visits: list[Visit] = []
        self._journal = journal
        for line in journal.lines():
            self._restore(_entries.validate_json(line))

    def arrive(self, visit: Visit) -> None:
        self._visits.append(visit)

    def leave(self, visit: Visit, status: int) -> None:
        """Complete a visit; call it before its answer goes out."""
        visit.status = status
        departure = Departure(at=visit.at, operation=visit.operation, api_key=visit.api_key, status=status)
        self._journal.append(departure.model_dump_json())

    def take(self, shipment: Shipment) -> None:
        """Keep a shipment whose reference is free; call it before its answer goes out."""
        self._journal.append(shipment.model_dump_json())
        self.shipments[shipment.reference] = shipment

    def forget(self) -> None:
        self._journal.append(Forgotten().model_dump_json())
        self._clear()

    def ledger(self) -> dict[str, Any]:
        """Return what really happened; `busiestSecond` is the most requests in any one second, per API key."""
        times: dict[str, list[float]] = {}
        admitted: dict[str, list[float]] = {}
        for visit in self._visits:
            times.setdefault(visit.api_key or "", []).append(visit.at)
            if visit.status not in {401, 429}:
                admitted.setdefault(visit.api_key or "", []).append(visit.at)
        statuses = Counter(str(visit.status) for visit in self._visits)
        return {
            "shipments": [{**shipment.view(), "createdAt": shipment.at} for shipment in self.shipments.values()],
            "requests": [visit.view() for visit in self._visits],
            "busiestSecond": {key: busiest_second(moments) for key, moments in times.items()},
            "busiestSecondAdmitted": {key: busiest_second(moments) for key, moments in admitted.items()},
            "totals": {"shipments": len(self.shipments), "requests": len(self._visits), "statuses": dict(statuses)},
        }

    def _restore(self, entry: Shipment | Departure | Forgotten) -> None:
        match entry:
            case Shipment():
                self.shipments[entry.reference] = entry
            case Departure():
                self._visits.append(Visit(entry.at, entry.operation, entry.api_key, entry.status))
            case Forgotten():
                self._clear()

    def _clear(self) -> None:
        self.shipments.clear()
        self._visits.clear()
