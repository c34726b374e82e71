"""When a cron pattern fires: instants, in any zone, over every change of its clocks.

One rule for all zones. A pattern is read on the zone's wall clock. A time that a change of the clocks skips fires once, as much later as the
clock jumped: it is the instant that the old clock would have shown. A time that a change repeats fires once, the first time; a pattern that
runs in every hour fires in the repeated hour too, since it means "every so often" and would fall silent otherwise.
"""

from copy import copy
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

NEARBY = timedelta(hours=25)
"""How far around an instant another offset can matter: no change of a clock is longer than a day, and no two of them are closer."""

_NAMED = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
    "@minutely": "* * * * *",
    "@secondly": "* * * * * *",
    "@weekdays": "0 0 * * 1-5",
    "@weekends": "0 0 * * 0,6",
}
_LONGEST = 1024
_ANY_DAY = ("*", "?")
_SOMETIME = datetime(2000, 1, 1)  # noqa: DTZ001 - a wall clock's time; leap years and all weekdays lie after it
_EVERY_HOUR = frozenset(range(24))


@dataclass(frozen=True, slots=True)
class Cron:
    """A pattern of five fields, or six with seconds first, in a zone. Make it with `parse_cron`."""

    pattern: str
    zone: str
    _walls: CronSim
    _zone: tzinfo
    _every_hour: bool

    @property
    def where(self) -> tzinfo:
        """Its zone."""
        return self._zone

    def next(self, after: datetime) -> datetime | None:
        """The first instant later than `after` at which it fires, in UTC; `None` when there is none for fifty years."""
        guess = self._guess(after)
        if guess is None:
            return None
        now = self._offset_at(after)
        nearby = {self._offset_at(after - NEARBY), now, self._offset_at(after + NEARBY), self._offset_at(guess)}
        if len(nearby) == 1:
            return guess
        return min(self._first_under(offset, after, guess) for offset in nearby)

    def upcoming(self, after: datetime, count: int) -> list[datetime]:
        """The next `count` instants after `after`."""
        found: list[datetime] = []
        following = self.next(after)
        while following is not None and len(found) < count:
            found.append(following)
            following = self.next(following)
        return found

    def _guess(self, after: datetime) -> datetime | None:
        """The first fitting wall time later than the clock shows that is also later in time; nothing that comes sooner is far from `after`."""
        wall = self._wall_after(_naive(after) + self._offset_at(after))
        while wall is not None and self._instant(wall, self._offset_of(wall, fold=0)) <= after:
            wall = self._wall_after(wall)
        return None if wall is None else self._instant(wall, self._offset_of(wall, fold=0))

    def _first_under(self, offset: timedelta, after: datetime, best: datetime) -> datetime:
        """The first instant after `after`, and not after `best`, that a wall time has by this offset."""
        wall = self._wall_after(_naive(after) + offset)
        while wall is not None and self._instant(wall, offset) < best:
            if offset in self._offsets_of(wall):
                return self._instant(wall, offset)
            wall = self._wall_after(wall)
        return best

    def _offsets_of(self, wall: datetime) -> tuple[timedelta, ...]:
        """The offsets by which a wall time counts: the old one where the clocks change, both for a repeated time of an every-hour pattern."""
        first, second = self._offset_of(wall, fold=0), self._offset_of(wall, fold=1)
        return (first, second) if self._every_hour and second < first else (first,)

    def _wall_after(self, wall: datetime) -> datetime | None:
        walls = copy(self._walls)
        walls.dt = wall.replace(microsecond=0)
        return next(walls, None)

    def _offset_at(self, instant: datetime) -> timedelta:
        return instant.astimezone(self._zone).utcoffset() or timedelta(0)

    def _offset_of(self, wall: datetime, *, fold: int) -> timedelta:
        return wall.replace(tzinfo=self._zone, fold=fold).utcoffset() or timedelta(0)

    @staticmethod
    def _instant(wall: datetime, offset: timedelta) -> datetime:
        return (wall - offset).replace(tzinfo=UTC)


@lru_cache(maxsize=512)  # a parsed pattern takes ten kilobytes
def parse_cron(pattern: str, zone: str = "UTC") -> Cron:
    """Read a pattern: names of days and months, lists, ranges, steps, `L`, `#`, `?`, and `@daily` and its like.

    Raises `ValueError`, saying what is wrong, for what is no pattern or no zone, and for a pattern that never fires.
    """
    fields = _fields(pattern)
    where = _find_zone(zone)
    try:
        walls = CronSim(" ".join(fields), _SOMETIME)
    except (CronSimError, ValueError, KeyError, AssertionError) as error:
        raise ValueError(
            f"{pattern!r} is no cron pattern: {error}; as in '30 2 * * *' or '*/15 * * * MON-FRI'"
        ) from error
    if next(copy(walls), None) is None:
        raise ValueError(f"the cron pattern {pattern!r} never fires: there is no such day")
    return Cron(pattern, zone, walls, where, _every_hour=frozenset(walls.hours) == _EVERY_HOUR)


def _fields(pattern: str) -> list[str]:
    if len(pattern) > _LONGEST:
        raise ValueError(f"a cron pattern has at most {_LONGEST} characters, not {len(pattern)}")
    fields = _NAMED.get(pattern.strip().lower(), pattern).upper().split()
    if len(fields) not in (5, 6):
        raise ValueError(
            f"{pattern!r} is no cron pattern: it has 5 fields (minute, hour, day, month, weekday), or 6 with seconds first"
        )
    day, weekday = (fields[at] for at in (-3, -1))
    if (
        day not in _ANY_DAY and weekday not in _ANY_DAY
    ):  # both restricted: either fits, also where one is written with a star
        fields[-3], fields[-1] = _without_star(day, "1-31"), _without_star(weekday, "0-6")
    return [field.replace("?", "*") for field in fields]


def _without_star(field: str, values: str) -> str:
    return field.replace("*", values).replace("?", values)


def _find_zone(zone: str) -> tzinfo:
    try:
        return ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ValueError(f"{zone!r} is no IANA time zone, like 'Europe/Paris' or 'UTC'") from error


def _naive(instant: datetime) -> datetime:
    return instant.astimezone(UTC).replace(tzinfo=None)
