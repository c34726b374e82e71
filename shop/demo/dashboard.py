"""The dashboard of a demonstration, with a user of its own."""

import secrets
from dataclasses import dataclass

from homing.dashboard import Role, add_user
from shop.trial.stage import Stage

USER = "demo"
READY = "the dashboard is at "


@dataclass(frozen=True, slots=True)
class Entrance:
    """Where to log in, and as whom."""

    url: str
    password: str

    def __str__(self) -> str:
        return f"{self.url} (log in as {USER}, password {self.password})"


async def open_dashboard(stage: Stage) -> Entrance:
    """Start it on a stage that is up; whoever knows the password may do everything."""
    password = secrets.token_urlsafe(9)
    add_user(stage.users_file, USER, Role.ADMIN, password)
    said = await stage.dashboards.add().until_it_says(READY)
    return Entrance(said.removeprefix(READY), password)
