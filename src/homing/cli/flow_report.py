"""The tree of a flow as it is printed: indented text, or JSON as it is nested."""

from collections.abc import Mapping

from homing.cli.output import show_text
from homing.harmless import clean_line
from homing.operations.flows import Counts, FlowNode

_LONGEST_VALUE = 80


def show_tree(tree: FlowNode) -> None:
    """A line for each job, below its parent; `→` is the job that was asked for."""
    show_text("\nflow")
    for level, node in tree.walk():
        mark = "→" if node.asked else " "
        show_text(f"{mark} {'  ' * level}{_words(node)}")
        if node.hidden:
            show_text(f"  {'  ' * (level + 1)}… and {node.hidden} more")


def tree_fields(node: FlowNode) -> Mapping[str, object]:
    """The same for programs."""
    return {
        "queue": node.queue,
        "id": node.job.id,
        "name": node.job.name,
        "state": None if node.job.state is None else node.job.state.value,
        "counts": None if node.counts is None else node.counts.name.lower(),
        "value": node.value,
        "failure": node.failure,
        "asked": node.asked,
        "hidden": node.hidden,
        "children": [tree_fields(child) for child in node.children],
    }


def _words(node: FlowNode) -> str:
    job = node.job
    state = "not there" if job.name is None else "in no list" if job.state is None else job.state.value
    where = f"{clean_line(node.queue)}: " if node.queue else ""
    return f"{where}{clean_line(job.id, 300)} {state}{_came_to(node)}"


def _came_to(node: FlowNode) -> str:
    if node.counts is Counts.COMPLETED and node.value is not None:
        return f" → {clean_line(node.value, _LONGEST_VALUE)}"
    return f": {clean_line(node.failure)}" if node.failure else ""
