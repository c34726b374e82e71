"""Money is whole Vietnamese dong: there are no cents, and a fraction is always a mistake."""

from typing import Annotated

from pydantic import Field

MAX_DONG = 2**53 - 1
"""The largest amount that every reader of JSON understands."""

Dong = Annotated[int, Field(strict=True, ge=0, le=MAX_DONG)]
"""An amount in events and requests: 10.5, "10" and -10 are refused, and so is 10.0."""


def whole_dong(amount: object) -> int:
    """`amount`, when it is a whole number of dong from 0 to `MAX_DONG`; a `ValueError` names it otherwise."""
    if type(amount) is not int or not 0 <= amount <= MAX_DONG:
        raise ValueError(f"{amount!r} is no amount: whole dong from 0 to {MAX_DONG}, as an int")
    return amount
