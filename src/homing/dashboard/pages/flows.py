"""Flows: jobs that wait for others, as trees from the root down."""

from collections import Counter
from collections.abc import Sequence

from starlette.exceptions import HTTPException
from starlette.responses import Response

from homing.dashboard.pages.jobs import find, queue_names
from homing.dashboard.visit import Visit, page
from homing.ids import DeliveryKey, JobId
from homing.operations.flows import MOST_CHILDREN, FlowNode, read_flow
from homing.operations.jobs import Choice
from homing.queue.browse import JobState

LONGEST_ID = 1_000


async def show_flows(visit: Visit) -> Response:
    """The jobs that wait for children now; each is the top of a tree, or within one."""
    queue = visit.query.text("queue", most=200)
    choice = Choice(queue=queue, state=JobState.WAITING_CHILDREN)
    found = await find(visit, choice, visit.query.text("after", most=600))
    return visit.page(
        "flows.html",
        found=found,
        choice=choice,
        queues=queue_names(visit.desk.lookout.seen()),
        given={} if queue is None else {"queue": queue},
        command_line=visit.command(
            "jobs", "list", "--state", "waiting-children", *(["--queue", queue] if queue else [])
        ),
    )


async def show_tree(visit: Visit) -> Response:
    """The whole tree that a job is in, from its root."""
    job_id = visit.query.raw("id")
    if not job_id or len(job_id) > LONGEST_ID:
        raise HTTPException(400, f"id: say which job, in up to {LONGEST_ID:,} characters")
    key = DeliveryKey.parse(job_id)
    queue = visit.query.text("queue", most=200)
    tree = await read_flow(visit.ledger, visit.engine, JobId(job_id), queue)
    nodes = [] if tree is None else [node for _, node in tree.walk()]
    return visit.page(
        "flow.html",
        job_id=job_id,
        queue=queue,
        consumer=None if key is None else key.consumer,
        tree=tree,
        states=count_states(nodes),
        most=MOST_CHILDREN,
        values={id(node): visit.desk.masks.read(node.value) for node in nodes if node.value},
        identity=id,
        command_line=visit.command("jobs", "explain", job_id),
    )


def count_states(nodes: Sequence[FlowNode]) -> list[tuple[str, int]]:
    """How many jobs of a tree are in each state, the most first. Pure."""
    return Counter(node.job.state.value if node.job.state else "gone" for node in nodes).most_common()


ROUTES = (page("/flows", show_flows), page("/flows/tree", show_tree))
