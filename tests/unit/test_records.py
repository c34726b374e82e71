"""Records that are quickly made are like any frozen dataclass, but for who refuses to change them."""

import pickle
from dataclasses import asdict, dataclass, field, replace

from homing.records import quickly_made


@dataclass(frozen=True, slots=True)
class Slow:
    a: int
    b: str = "b"
    c: list[int] = field(default_factory=list, hash=False)
    d: int = field(default=4, kw_only=True)


@quickly_made
@dataclass(frozen=True, slots=True)
class Quick:
    a: int
    b: str = "b"
    c: list[int] = field(default_factory=list, hash=False)
    d: int = field(default=4, kw_only=True)


def test_it_is_made_compared_copied_and_hashed_alike() -> None:
    """Whatever code does with a frozen dataclass."""
    one, other = Quick(1, c=[3], d=5), Slow(1, c=[3], d=5)
    assert asdict(one) == asdict(other)
    assert repr(one) == repr(other).replace("Slow", "Quick")
    assert hash(one) == hash(other)
    assert one == Quick(1, "b", [3], d=5) != Quick(2, "b", [3], d=5)
    assert replace(one, a=7) == Quick(7, c=[3], d=5)
    assert pickle.loads(pickle.dumps(one)) == one  # noqa: S301 - our own
    assert Quick(1).c is not Quick(1).c
    match one:
        case Quick(a, b):
            assert (a, b) == (1, "b")
