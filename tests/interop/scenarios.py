"""What is played: a story for each script."""

from collections.abc import Awaitable, Callable

from homing.queue.job import Deduplication, KeepRule
from homing.queue.parent import OnFailure
from tests.interop.player import CHILDREN, Player

Scenario = Callable[[Player], Awaitable[None]]


async def adding(player: Player) -> None:
    await player.play("add", "a", "b")
    await player.play("add", "a")
    await player.play("add", "c", priority=3, attempts=5, backoff=("exponential", 1.0))
    await player.play("add", "d", "e", delay_hours=2.0, keep_completed=KeepRule(age_seconds=3600, count=7))
    await player.play("add", "f", keep_completed=KeepRule(count=0), keep_failed=KeepRule(count=5))
    await player.play("add", "g", priority=3)
    await player.play("add", "h", priority=1)
    await player.play("add", "i", "j", delay_hours=2.0, priority=4)


async def last_in_first_out(player: Player) -> None:
    await player.play("add", "a", "b")
    await player.play("add", "c", lifo=True, attempts=2)
    await player.play("add", "d", "e", lifo=True)
    await player.play("claim")
    await player.play("retry", 0)
    for _ in range(5):
        await player.play("claim")


async def of_the_same(player: Player) -> None:
    same = Deduplication(id="s")
    await player.play("add", "a", same=same)
    await player.play("add", "b", same=same)
    await player.play("claim")
    await player.play("add", "c", same=same)
    await player.play("complete", 0)
    await player.play("add", "d", same=same)
    await player.play("remove", "d")
    await player.play("add", "e", same=same)
    await player.play("claim")
    await player.play("fail", 1)
    await player.play("add", "f", same=same)


async def of_the_same_for_a_while(player: Player) -> None:
    throttled = Deduplication(id="t", ttl_seconds=2 * 3600)
    longer = Deduplication(id="t", ttl_seconds=5 * 3600)
    extended = Deduplication(id="t", ttl_seconds=9 * 3600, extend=True)
    await player.play("add", "a", same=throttled)
    await player.play("add", "b", same=longer)
    await player.play("claim")
    await player.play("complete", 0)
    await player.play("add", "c", same=extended)
    await player.play("expire", "de:t")
    await player.play("add", "d", same=extended)
    await player.play("add", "e", same=extended, delay_hours=1.0)


async def of_the_same_the_newest(player: Player) -> None:
    debounced = Deduplication(id="n", ttl_seconds=2 * 3600, extend=True, replace=True)
    await player.play("add", "a", same=debounced, delay_hours=2.0)
    await player.play("add", "b", same=debounced, delay_hours=2.0)
    await player.play("add", "c", same=debounced)
    await player.play("add", "d", same=Deduplication(id="m", replace=True), delay_hours=1.0)
    await player.play("add", "e", same=Deduplication(id="m", replace=True), delay_hours=1.0)
    await player.play("claim")
    await player.play("add", "f", same=debounced)


async def of_the_same_the_last(player: Player) -> None:
    last = Deduplication(id="l", keep_last_if_active=True)
    await player.play("add", "a", same=last)
    await player.play("add", "b", same=last)
    await player.play("claim")
    await player.play("add", "c", same=last)
    await player.play("add", "d", same=last, priority=3, attempts=2)
    await player.play("complete", 0)
    await player.play("claim")
    await player.play("add", "e", same=last, delay_hours=1.0)
    await player.play("fail", 1, claims_next=True)
    await player.play("pass_time", 1.0)
    await player.play("claim")
    await player.play("add", "f", same=last)
    await player.play("complete", 2, claims_next=True)


async def telling(player: Player) -> None:
    await player.play("add", "a")
    await player.play("progress", "a", {"done": 0.5})
    await player.play("progress", "a", 75)
    await player.play("log", "a", "one", "two")
    await player.play("log", "a", "three")
    await player.play("progress", "nothing", 1)


async def _family(player: Player, on_failure: OnFailure) -> None:
    await player.play("add_flow", "p", "x", "y", "z", on_failure=on_failure, attempts=2)
    await player.play("claim", CHILDREN)
    await player.play("claim", CHILDREN)
    await player.play("claim")
    await player.play("complete", 0)
    await player.play("fail", 1)
    await player.play("claim", CHILDREN)
    await player.play("complete", 2, claims_next=True)
    await player.play("claim")
    # BullMQ lets nobody complete a parent that failed by its child; here the ledger decides, so that ours could.
    await player.play("fail" if on_failure == "fail" else "complete", 3)


async def a_family_that_fails(player: Player) -> None:
    await _family(player, "fail")


async def a_family_that_continues(player: Player) -> None:
    await _family(player, "continue")


async def a_family_that_ignores(player: Player) -> None:
    await _family(player, "ignore")


async def a_family_that_removes(player: Player) -> None:
    await _family(player, "remove")


async def families(player: Player) -> None:
    await player.play("add_flow", "p", "x", "y", on_failure="fail", priority=3)
    await player.play("add_flow", "q", "v", on_failure="fail", delay_hours=1.0)
    await player.play("remove", "q")
    await player.play("remove_children", "p")
    await player.play("claim")


async def children_on_the_way(player: Player) -> None:
    await player.play("add", "p", attempts=3)
    await player.play("claim")
    await player.play("add_child", "p", "x", on_failure="ignore")
    await player.play("add_child", "p", "y", on_failure="fail")
    await player.play("wait_for_children", 0)
    await player.play("claim", CHILDREN)
    await player.play("fail", 1)
    await player.play("claim", CHILDREN)
    await player.play("complete", 2)
    await player.play("claim")
    await player.play("complete", 3)


# An upsert of what is held already changes nothing here, while BullMQ makes the tick anew: what follows upserts once.
async def scheduling(player: Player) -> None:
    await player.play("schedule", "often", every_hours=2.0, attempts=3)
    await player.play("claim")
    await player.play("complete", 0)
    await player.play("claim")
    await player.play("pass_time", 2.0)
    await player.play("claim")
    await player.play("fail", 1)
    await player.play("pass_time", 7.0)
    await player.play("claim")
    await player.play("complete", 2)
    await player.play("unschedule", "often")
    await player.play("unschedule", "often")


async def scheduling_by_a_pattern(player: Player) -> None:
    await player.play("schedule", "nightly", cron="30 2 * * *", zone="Europe/Paris")
    await player.play("claim")
    await player.play("pass_time", 24.0)
    await player.play("claim")
    await player.play("complete", 0)
    await player.play("pass_time", 72.0)
    await player.play("claim")
    await player.play("complete", 1)
    await player.play("unschedule", "nightly")


async def scheduling_within_bounds(player: Player) -> None:
    await player.play("schedule", "later", every_hours=2.0, start_hours=5.0, limit=2)
    await player.play("schedule", "ending", cron="0 * * * *", end_hours=3.0)
    await player.play("schedule", "now", cron="0 0 * * *", immediate=True)
    for _ in range(12):
        await player.play("claim")
        await player.play("pass_time", 1.0)


async def claiming_and_finishing(player: Player) -> None:
    await player.play("add", "a", "b", "c")
    for _ in range(4):
        await player.play("claim")
    await player.play("complete", 0)
    await player.play("fail", 1)
    await player.play("complete", 1)
    await player.play("expire", "c:lock")
    await player.play("complete", 2)
    await player.play("remove", "c")
    await player.play("fail", 2)


async def finishing_with_the_next(player: Player) -> None:
    await player.play("add", "a", "b", "c", "d")
    await player.play("add", "e", priority=2)
    await player.play("claim")
    for which in range(5):
        await player.play("complete" if which % 2 else "fail", which, claims_next=True)


async def keeping(player: Player) -> None:
    terms = {"keep_completed": KeepRule(count=1), "keep_failed": KeepRule(age_seconds=7200)}
    await player.play("add", *"abcdefg", **terms)
    for which in range(7):
        await player.play("claim")
        await player.play("complete" if which < 3 else "fail", which)
        await player.play("pass_time", 1.0)
    await player.play("add", "h", keep_completed=KeepRule(count=0))
    await player.play("claim")
    await player.play("complete", 7)


async def retrying(player: Player) -> None:
    await player.play("add", "a", "b", attempts=3)
    await player.play("claim")
    await player.play("retry", 0)
    await player.play("claim")
    await player.play("retry", 1)
    await player.play("claim")
    await player.play("retry", 2)
    await player.play("claim")
    await player.play("fail", 3)
    await player.play("retry", 0)


async def retrying_later(player: Player) -> None:
    await player.play("add", "a", attempts=4, backoff=("exponential", 2.0))
    await player.play("add", "b", attempts=4, backoff=("fixed", 2.0), priority=7)
    await player.play("add", "c")
    await player.play("claim")
    await player.play("claim")
    await player.play("retry", 0, delay_hours=2.0)
    await player.play("claim")
    await player.play("retry", 2, delay_hours=2.0)
    await player.play("pass_time", 2.0)
    await player.play("claim")
    await player.play("retry", 3, delay_hours=4.0, claims_next=True)


async def snoozing_and_releasing(player: Player) -> None:
    await player.play("add", "a", "b", attempts=3)
    await player.play("add", "c", priority=2)
    for _ in range(3):
        await player.play("claim")
    await player.play("snooze", 0, 3.0)
    await player.play("snooze", 2, 3.0)
    await player.play("release", 1)
    await player.play("release", 1)
    await player.play("pass_time", 3.0)
    await player.play("claim")
    await player.play("claim")
    await player.play("claim")
    await player.play("release", 5)


async def waking(player: Player) -> None:
    await player.play("add", "a", "b")
    for which in range(2):
        await player.play("expire", "marker")
        await player.play("claim")
        await player.play("complete", which, claims_next=True)
    await player.play("expire", "marker")
    await player.play("add", "c", priority=3)
    await player.play("add", "d", delay_hours=2.0)
    await player.play("expire", "marker")
    await player.play("claim")
    await player.play("expire", "marker")
    await player.play("complete", 2)


async def renewing(player: Player) -> None:
    await player.play("add", "a")
    await player.play("claim")
    await player.play("extend", 0)
    await player.play("expire", "a:lock")
    await player.play("extend", 0)


async def rescuing(player: Player) -> None:
    await player.play("add", "a", "b", "c")
    await player.play("add", "d", priority=2)
    for _ in range(3):
        await player.play("claim")
    await player.play("rescue")
    await player.play("expire", "a:lock")
    await player.play("expire", "b:lock")
    await player.play("rescue")
    await player.play("expire", "stalled-check")
    await player.play("rescue")
    await player.play("expire", "stalled-check")
    await player.play("rescue")
    await player.play("claim")
    await player.play("complete", 3)
    await player.play("complete", 0)


async def delayed_jobs_come_due(player: Player) -> None:
    await player.play("add", "a", delay_hours=1.0)
    await player.play("add", "b", delay_hours=1.0, priority=5)
    await player.play("add", "c", delay_hours=3.0)
    await player.play("claim")
    await player.play("pass_time", 1.0)
    await player.play("claim")
    await player.play("claim")
    await player.play("claim")
    await player.play("promote", "c")
    await player.play("promote", "c")
    await player.play("promote", "nothing")
    await player.play("claim")


async def pausing(player: Player) -> None:
    await player.play("add", "a", "b")
    await player.play("claim")
    await player.play("pause", paused=True)
    await player.play("claim")
    await player.play("add", "c")
    await player.play("add", "d", delay_hours=1.0)
    await player.play("complete", 0, claims_next=True)
    await player.play("promote", "d")
    await player.play("pause", paused=False)
    await player.play("claim")


async def limiting(player: Player) -> None:
    await player.play("limit", 2)
    await player.play("add", "a", "b", "c", "d", "e")
    await player.play("claim")
    await player.play("claim")
    await player.play("claim")
    await player.play("complete", 0, claims_next=True)
    await player.play("expire", "limiter")
    await player.play("claim")
    await player.play("throttle", 2.0)
    await player.play("claim")
    await player.play("release", 2)
    await player.play("limit", None)


async def bounding_how_many_run(player: Player) -> None:
    await player.play("concurrency", 2)
    await player.play("add", "a", "b", "c", "d")
    for _ in range(3):
        await player.play("claim")
    await player.play("complete", 0, claims_next=True)
    await player.play("complete", 1)
    await player.play("concurrency", None)
    await player.play("claim")


async def running_again(player: Player) -> None:
    await player.play("add", "a", attempts=1)
    await player.play("add", "b", attempts=1, priority=3)
    for which in range(2):
        await player.play("claim")
        await player.play("fail", which)
    await player.play("rerun", "a")
    await player.play("rerun", "b")
    await player.play("rerun", "a")
    await player.play("rerun", "nothing")
    await player.play("claim")
    await player.play("complete", 2)


async def removing(player: Player) -> None:
    await player.play("add", *"abcd")
    await player.play("add", "e", priority=2)
    await player.play("add", "f", delay_hours=1.0)
    await player.play("claim")
    await player.play("claim")
    await player.play("complete", 1)
    for job_id in (*"abcdef", "nothing"):
        await player.play("remove", job_id)


async def cleaning(player: Player) -> None:
    await player.play("add", *"abcdef")
    for which in range(6):
        await player.play("claim")
        await player.play("fail" if which % 2 else "complete", which)
        await player.play("pass_time", 1.0)
    await player.play("clean", "completed", hours=3.0, most=1)
    await player.play("clean", "completed", hours=0.0, most=10)
    await player.play("clean", "failed", hours=2.0, most=10)


async def draining(player: Player) -> None:
    await player.play("add", *"abc")
    await player.play("add", "d", priority=2)
    await player.play("add", "e", delay_hours=1.0)
    await player.play("claim")
    await player.play("drain", delayed=False)
    await player.play("drain", delayed=True)
    await player.play("complete", 0)


async def obliterating(player: Player) -> None:
    await player.play("add", *"abc")
    await player.play("add", "d", priority=2)
    await player.play("add", "e", delay_hours=1.0)
    await player.play("claim")
    await player.play("complete", 0, claims_next=True)
    await player.play("pause", paused=True)
    await player.play("obliterate", force=False)
    await player.play("obliterate", force=True)


SCENARIOS: list[Scenario] = [
    adding,
    last_in_first_out,
    of_the_same,
    of_the_same_for_a_while,
    of_the_same_the_newest,
    of_the_same_the_last,
    telling,
    a_family_that_fails,
    a_family_that_continues,
    a_family_that_ignores,
    a_family_that_removes,
    families,
    children_on_the_way,
    scheduling,
    scheduling_by_a_pattern,
    scheduling_within_bounds,
    claiming_and_finishing,
    finishing_with_the_next,
    keeping,
    retrying,
    retrying_later,
    snoozing_and_releasing,
    waking,
    renewing,
    rescuing,
    delayed_jobs_come_due,
    pausing,
    limiting,
    bounding_how_many_run,
    running_again,
    removing,
    cleaning,
    draining,
    obliterating,
]


async def moving_several(player: Player) -> None:
    await player.play("add", *"abcdefgh", keep_completed=KeepRule(count=2))
    await player.play("add", "i", priority=2)
    await player.play("claim_group", 3)
    await player.play("complete_group", 0, 1, 2)
    await player.play("concurrency", 4)
    await player.play("expire", "d:lock")
    await player.play("complete_group", 3, 4, 5)
    await player.play("claim_group", 5)


async def moving_several_within_limits(player: Player) -> None:
    await player.play("limit", 5)
    await player.play("add", *"abcdefgh")
    await player.play("add", "i", delay_hours=1.0)
    await player.play("claim_group", 2)
    await player.play("pass_time", 1.0)
    await player.play("complete_group", 0, 1)
    await player.play("complete_group", 2, 3)


SEVERAL: list[Scenario] = [moving_several, moving_several_within_limits]
"""Moved in one script of ours, and one by one in Node."""
