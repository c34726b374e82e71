"""Set aside, kept: the deaths of deliveries."""

from homing.deadletters.campaign import Campaign, Terms
from homing.deadletters.campaigns import Campaigns
from homing.deadletters.deadletters import DeadLetters, Death, Kind
from homing.deadletters.editing import Edit, edit_payload
from homing.deadletters.filters import Filter
from homing.deadletters.letters import (
    group_letters,
    group_newest_letters,
    letter_histograms,
    letter_history,
    list_letters,
    show_letter,
)
from homing.deadletters.redrive import Redrive, Refusal
from homing.deadletters.report import ErrorReport, report_error, report_text
from homing.deadletters.runner import CampaignRunner

__all__ = [
    "Campaign",
    "CampaignRunner",
    "Campaigns",
    "DeadLetters",
    "Death",
    "Edit",
    "ErrorReport",
    "Filter",
    "Kind",
    "Redrive",
    "Refusal",
    "Terms",
    "edit_payload",
    "group_letters",
    "group_newest_letters",
    "letter_histograms",
    "letter_history",
    "list_letters",
    "report_error",
    "report_text",
    "show_letter",
]
