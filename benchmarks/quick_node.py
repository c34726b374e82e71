"""Where Node's BullMQ comes from: what `make node` installed. Without it Node is left out, which is said."""

from tests.interop.npm import PINNED as FOLDER
from tests.interop.npm import NodeIsMissingError, installed, node_version

__all__ = ["FOLDER", "installed_bullmq", "node_version"]


def installed_bullmq() -> str | None:
    """The version of BullMQ; `None`, with the reason printed, when there is none."""
    try:
        return installed().bullmq
    except NodeIsMissingError as error:
        print(f"!!! NODE IS LEFT OUT OF THIS RUN: {error}", flush=True)
        return None
