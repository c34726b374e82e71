"""Redrive campaigns as text for people and as JSON for programs."""

from collections.abc import Sequence

import typer

from homing.cli.campaign import describe_campaign
from homing.cli.exits import Exit
from homing.cli.output import show_json, show_list, show_text
from homing.cli.session import Session
from homing.deadletters.campaigns import Progress
from homing.harmless import clean_line

_CAMPAIGNS = ("campaign", "state", "started", "by", "matched", "redriven", "done", "pending", "dead again", "why")


def show_progress(session: Session, progress: Progress) -> None:
    """How a campaign ended, or how far it is; one that stopped because deliveries died again ends the command with 1."""
    campaign = progress.campaign
    if session.json:
        show_json(_as_json(progress))
    else:
        show_text(describe_campaign(campaign))
        show_text(
            f"of those {progress.done} are done, {progress.dead_again} dead again, {progress.pending} on their way"
        )
        if campaign.state == "paused":
            show_text(f"go on with: homing redrive --resume {campaign.id}")
    if campaign.state == "stopped" and campaign.died_again:
        raise typer.Exit(Exit.FOUND_WRONG)


def show_campaigns(session: Session, found: Sequence[Progress]) -> None:
    """A table of campaigns."""
    if session.json:
        show_json([_as_json(progress) for progress in found])
        return
    show_list(_CAMPAIGNS, [_row(progress) for progress in found])


def _row(progress: Progress) -> list[str]:
    campaign = progress.campaign
    numbers = (campaign.matched, campaign.redriven, progress.done, progress.pending, progress.dead_again)
    started = f"{campaign.started_at:%Y-%m-%d %H:%M:%S}"
    return [
        str(campaign.id),
        campaign.state,
        started,
        campaign.started_by,
        *map(str, numbers),
        clean_line(campaign.reason),
    ]


def _as_json(progress: Progress) -> dict[str, object]:
    campaign = progress.campaign
    return {
        "campaign": campaign.id,
        "state": campaign.state,
        "filter": campaign.filter.as_json(),
        "rate": campaign.terms.rate,
        "canary": campaign.terms.canary,
        "stop_after": campaign.terms.stop_after,
        "started_by": campaign.started_by,
        "reason": campaign.reason,
        "started_at": campaign.started_at,
        "ended_at": campaign.ended_at,
        "end_reason": campaign.end_reason,
        "matched": campaign.matched,
        "redriven": campaign.redriven,
        "refused": campaign.refused,
        "died_again": campaign.died_again,
        "done": progress.done,
        "pending": progress.pending,
        "dead_again": progress.dead_again,
    }
