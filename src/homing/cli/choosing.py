"""The options that choose dead letters, the same for every verb that takes some."""

from datetime import datetime
from typing import Annotated

import typer

from homing.cli.acting import read_ids
from homing.cli.moments import read_moment
from homing.deadletters.filters import Filter

ConsumerOption = Annotated[str | None, typer.Option("--consumer", help="Of this consumer.", metavar="QUEUE.JOB")]
QueueOption = Annotated[str | None, typer.Option("--queue", help="Of this queue.")]
KindOption = Annotated[
    str | None, typer.Option("--kind", help="failed, poison, expired, vanished, foreign or torn.", metavar="KIND")
]
FingerprintOption = Annotated[str | None, typer.Option("--fingerprint", help="Of this group.")]
ErrorClassOption = Annotated[str | None, typer.Option("--error-class", help="Whose error is of this class.")]
ErrorTextOption = Annotated[str | None, typer.Option("--error-text", help="Whose error says this, in any case.")]
SinceOption = Annotated[
    str | None, typer.Option("--since", help="Dead since then: 2d (ago), or 2026-01-31T12:00+01:00.", metavar="TIME")
]
UntilOption = Annotated[str | None, typer.Option("--until", help="Dead before then, written likewise.", metavar="TIME")]

_KINDS = ("failed", "poison", "expired", "vanished", "foreign", "torn")


def choose(  # noqa: PLR0917 - in the order of the options
    consumer: str | None,
    queue: str | None,
    kind: str | None,
    fingerprint: str | None,
    error_class: str | None,
    error_text: str | None,
    since: str | None,
    until: str | None,
    *,
    ids: list[str] | None = None,
    everything: bool = False,
) -> Filter:
    """The filter that these options make; what cannot be read is a usage error that names the option."""
    if kind is not None and kind not in _KINDS:
        raise typer.BadParameter(f"{kind!r} is no kind of dead letter: {', '.join(_KINDS)}", param_hint="--kind")
    return Filter(
        consumer=consumer,
        queue=queue,
        kind=kind,
        fingerprint=fingerprint,
        error_class=error_class,
        error_text=error_text,
        since=_moment(since, "--since"),
        until=_moment(until, "--until"),
        ids=read_ids(ids, "dead letter") if ids else None,
        everything=everything,
    )


def _moment(text: str | None, option: str) -> datetime | None:
    return None if text is None else read_moment(text, option)
