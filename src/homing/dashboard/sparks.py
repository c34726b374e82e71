"""Sparklines: a few numbers as the points of a small picture, which the template draws. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

WIDTH, HEIGHT = 160.0, 36.0
_ROOM = 2.5


@dataclass(frozen=True, slots=True)
class Spark:
    """The points of the line, those of the area below it, the last point, and the highest value."""

    line: str
    area: str
    last: tuple[float, float]
    peak: float


def spark(values: Sequence[float], most: int = 80) -> Spark | None:
    """The picture of a series, oldest first, its highest value at the top; `None` for fewer than two values."""
    series = thin(values, most)
    if len(series) < 2:
        return None
    peak = max(series)
    scale = (HEIGHT - 2 * _ROOM) / peak if peak > 0 else 0.0
    step = WIDTH / (len(series) - 1)
    points = [(round(at * step, 1), round(HEIGHT - _ROOM - value * scale, 1)) for at, value in enumerate(series)]
    line = " ".join(f"{x:g},{y:g}" for x, y in points)
    area = f"{points[0][0]:g},{HEIGHT:g} {line} {points[-1][0]:g},{HEIGHT:g}"
    return Spark(line, area, points[-1], peak)


def thin(values: Sequence[float], most: int) -> list[float]:
    """At most so many values, each the highest of its stretch, so that no peak is lost."""
    if len(values) <= most:
        return list(values)
    series = list(values)
    bounds = [round(at * len(series) / most) for at in range(most + 1)]
    return [max(series[start:end]) for start, end in pairwise(bounds)]
