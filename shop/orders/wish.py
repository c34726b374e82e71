"""What a customer wants, as it comes in, and the fingerprint that tells one wish from another."""

import hashlib
import json
from collections import Counter
from typing import Annotated
from uuid import UUID, uuid5

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

_ORDERS = UUID("0f6b3b0a-5d0e-5c53-8f3e-7f6f1c1f6a11")

Printable = Annotated[str, Field(pattern=r"^[^\x00-\x1f\x7f]+$")]


class _Body(BaseModel):
    model_config = ConfigDict(
        alias_generator=to_camel, validate_by_name=True, validate_by_alias=True, extra="forbid", frozen=True
    )


class WantedLine(_Body):
    """So many pieces of one product."""

    sku: Annotated[Printable, Field(max_length=100)]
    quantity: Annotated[int, Field(strict=True, ge=1, le=1000)]


class Wish(_Body):
    """The body of POST /orders. It names no prices: those are the shop's."""

    customer_id: UUID
    email: Annotated[str, Field(pattern=r"^[!-?A-~]+@[!-?A-~]+$", max_length=254)]
    address: Annotated[Printable, Field(max_length=500)]
    lines: Annotated[list[WantedLine], Field(min_length=1, max_length=50)]

    @property
    def quantities(self) -> dict[str, int]:
        """The pieces by product; lines of the same product count together."""
        wanted: Counter[str] = Counter()
        for line in self.lines:
            wanted[line.sku] += line.quantity
        return dict(wanted)

    @property
    def fingerprint(self) -> str:
        """The same for two requests that say the same, however they are spaced."""
        said = json.dumps(self.model_dump(mode="json"), sort_keys=True)
        return hashlib.sha256(said.encode()).hexdigest()


def order_id_for(idempotency_key: str) -> UUID:
    """The order's id, made from the key: a request that is repeated after a crash means the same order and the same hold."""
    return uuid5(_ORDERS, idempotency_key)
