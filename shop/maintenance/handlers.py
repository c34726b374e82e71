"""What the shop does by the clock. Workers write the schedule down when they start; all of them together make one."""

import logging
from collections.abc import Mapping

from homing import Tick
from shop.jobs import maintenance
from shop.maintenance.outbox import OutboxCleanUp

logger = logging.getLogger(__name__)


@maintenance.schedule("outbox-cleanup", cron="0 3 * * *", zone="Asia/Ho_Chi_Minh", at_least_once=True)
async def clean_outbox(tick: Tick, outbox: OutboxCleanUp) -> Mapping[str, int]:
    """Let events that are settled for a week leave. Twice is as good as once: what has left is not there."""
    logger.info("cleaning up for %s", tick.due_at)
    return await outbox.run()
