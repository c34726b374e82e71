"""Moments as people type them: `2d` for two days ago, or an ISO time, which is UTC where it names no zone."""

from datetime import UTC, datetime

import typer

from homing.clock import SystemClock
from homing.durations import parse_duration


def read_moment(text: str, option: str) -> datetime:
    """The moment; what cannot be read is a usage error that names the option."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return _ago(text, option)
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _ago(text: str, option: str) -> datetime:
    try:
        return SystemClock().now() - parse_duration(text)
    except (ValueError, OverflowError) as error:
        raise typer.BadParameter(
            f"{text!r} is neither a duration (2d, 12h) nor an ISO time (2026-01-31T12:00)", param_hint=option
        ) from error
