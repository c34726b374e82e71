"""Jobs outside the outbox: enqueued directly, followed to their ends."""

from homing.client.client import Client, Clients
from homing.client.engines import ANSWER_SECONDS, DirectEngine, make_engine
from homing.client.handle import Handle
from homing.client.making import Data, JobPolicy, make_job
from homing.client.options import Deduplicate, EnqueueOptions, Terms, read_options
from homing.queue.browse import JobPage, JobState, ListedJob, QueueTerms, ShownJob
from homing.queue.following import EventsMissed, EventStream, QueueEvent
from homing.queue.job import JobCounts
from homing.queue.notes import LogPage

__all__ = [
    "ANSWER_SECONDS",
    "Client",
    "Clients",
    "Data",
    "Deduplicate",
    "DirectEngine",
    "EnqueueOptions",
    "EventStream",
    "EventsMissed",
    "Handle",
    "JobCounts",
    "JobPage",
    "JobPolicy",
    "JobState",
    "ListedJob",
    "LogPage",
    "QueueEvent",
    "QueueTerms",
    "ShownJob",
    "Terms",
    "make_engine",
    "make_job",
    "read_options",
]
