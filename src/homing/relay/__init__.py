"""Moved to the queue: from recorded events to jobs, and again when a job got lost."""

from homing.relay.dispatch import Dispatcher
from homing.relay.families import Families
from homing.relay.relay import Relay
from homing.relay.subscriptions import push_settings, register
from homing.relay.sweep import Sweep
from homing.relay.unroutable import Unroutable
from homing.relay.wake import Listener
from homing.relay.watch import QueueWatch

__all__ = [
    "Dispatcher",
    "Families",
    "Listener",
    "QueueWatch",
    "Relay",
    "Sweep",
    "Unroutable",
    "push_settings",
    "register",
]
