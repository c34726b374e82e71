"""The pages: what operators see and do, in a browser. Served by `homing dashboard`, or mounted in an application of your own."""

from homing.dashboard.access import Access, Identity, SignOn
from homing.dashboard.app import Dashboard
from homing.dashboard.users import Users, add_user
from homing.ledger.actions import Role

__all__ = ["Access", "Dashboard", "Identity", "Role", "SignOn", "Users", "add_user"]
