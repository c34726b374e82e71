"""What an application declares: queues, handlers, options, resources."""

from homing.app.application import Homing
from homing.app.declared import Queue
from homing.app.flows import Child, Children, Flow, SyncFlow
from homing.app.handlers import Guarantee, Handler, Job, Parameter, Transaction
from homing.app.options import DEFAULTS, FOREVER, Keep, Options, Policy, RateLimit, Retry
from homing.app.resources import Provider, check_resources
from homing.app.schedules import Tick

__all__ = [
    "DEFAULTS",
    "FOREVER",
    "Child",
    "Children",
    "Flow",
    "Guarantee",
    "Handler",
    "Homing",
    "Job",
    "Keep",
    "Options",
    "Parameter",
    "Policy",
    "Provider",
    "Queue",
    "RateLimit",
    "Retry",
    "SyncFlow",
    "Tick",
    "Transaction",
    "check_resources",
]
