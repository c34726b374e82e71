"""What starts by the clock: schedules that code declares are written down, and engines hold what is written, also after they forgot."""

from homing.scheduler.declaring import declare_schedules
from homing.scheduler.keeper import Keeper

__all__ = ["Keeper", "declare_schedules"]
