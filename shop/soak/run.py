"""The soak itself: orders flow while the plan is carried out, then everything is waited for, and the books are opened."""

import asyncio
import math
from collections.abc import Callable, Sequence
from contextlib import suppress

import asyncpg

from shop.soak.chaos import Chaos
from shop.soak.keeper import Keeper
from shop.soak.options import Options
from shop.soak.plan import Strike
from shop.soak.pruner import Pruner
from shop.soak.scene import Scene
from shop.soak.verdict import Outcome
from shop.soak.witness import count_rows, jobs_left, look, missing_pieces, open_ends
from shop.trial.customers import CustomerLostError, Customers, purchases
from shop.trial.facts import EVENTS_PER_ORDER, gather_facts
from shop.trial.opening import PIECES_PER_ORDER
from shop.trial.stage import Cast, Stage

CAST = Cast(
    apis=2,
    relays=2,
    workers=3,
    environment={
        "HOMING_LEASE": "5s",
        "HOMING_BEAT": "1s",
        "HOMING_RESCUE": "2s",
        "HOMING_LOOK_GRACE": "3s",
        "HOMING_SHUTDOWN_GRACE": "5s",
        "HOMING_RETENTION__EVENTS": "2s",
        "SHOP_REQUEST_TIMEOUT": "2",
        "SHOP_CHECKOUT_BUSY": "5",
        "SHOP_SHIPPING_CONCURRENCY": "10",
    },
    postgres_settings={"max_connections": "250"},
)
"""Two of everything that may die; losses are noticed within seconds, and what is settled is pruned a moment later."""

PATIENCE_SECONDS = 900.0
"""How long the shop may take for what is left when the plan's time is over; then the books are opened in any case.

It needs a minute or two; on a machine that is busy with other things, as long as it gets on.
"""

CUSTOMER_SECONDS = 120.0
"""How long a customer asks again."""

STALLED_SECONDS = 90.0
"""Without any progress nobody waits even that long: every wait of the shop is shorter."""

LOOK_SECONDS = 0.5
TELL_SECONDS = 10.0

Tell = Callable[[str], object]


class Soak:
    """One run of a plan against a stage that is up, with `CAST` on it."""

    def __init__(self, stage: Stage, options: Options, plan: Sequence[Strike], tell: Tell) -> None:
        self._stage = stage
        self._options = options
        self._plan = plan
        self._tell = tell
        self._wanted = purchases(options)
        self._deadline = math.inf
        self._keeper = Keeper(stage, tell)
        self._pruner = Pruner(stage)
        self._chaos = Chaos(Scene.of(stage), tell)
        self._dice = options.dice("doors")
        self._customers = Customers(
            find_shop=self._any_door,
            over_seconds=options.seconds,
            at_once=16,
            patience_seconds=CUSTOMER_SECONDS,
            request_seconds=15.0,
        )

    async def run(self) -> Outcome:
        """Orders and faults at once, then the rest in peace; returns within the plan's time and the patience."""
        self._deadline = asyncio.get_running_loop().time() + self._options.seconds + PATIENCE_SECONDS
        async with asyncio.TaskGroup() as group:
            beside = [
                group.create_task(task) for task in (self._keeper.run(), self._pruner.run(), self._tell_standing())
            ]
            unanswered, _ = await asyncio.gather(self._order(), self._chaos.run(self._plan))
            self._tell("no more faults; waiting for the rest")
            unfinished = await self._until_finished()
            for task in beside:
                task.cancel()
        return await self._open_books([*unfinished, *unanswered])

    def _any_door(self) -> str | None:
        urls = self._stage.api_urls
        return self._dice.choice(urls) if urls else None

    async def _order(self) -> list[str]:
        """Place all orders; returns what those customers say who gave up, and how many others had no answer at the end."""
        customers = self._customers
        with suppress(CustomerLostError, TimeoutError):  # told below, one by one
            async with asyncio.timeout_at(self._deadline):
                await customers.order_everything(self._wanted, lambda: None)
        waiting = len(self._wanted) - customers.placed - len(customers.gave_up)
        return [*customers.gave_up, *([f"{waiting} customers had no answer when the time was over"] if waiting else [])]

    async def _tell_standing(self) -> None:
        while True:
            await asyncio.sleep(TELL_SECONDS)
            standing = await look(self._stage.servers.database_url)
            self._tell("PostgreSQL does not answer" if standing is None else str(standing))

    async def _until_finished(self) -> list[str]:
        """Return when everything is finished and no queue holds a job, or say why nobody would wait any longer."""
        servers, now = self._stage.servers, asyncio.get_running_loop().time
        stalled, before, standing, left = now() + STALLED_SECONDS, None, None, None
        while now() < min(self._deadline, stalled):
            standing, left = await look(servers.database_url), await jobs_left(servers.redis_url)
            if standing and standing.finished(self._customers.placed) and left == 0:
                return []
            if (standing, left) != before:
                stalled, before = now() + STALLED_SECONDS, (standing, left)
            await asyncio.sleep(LOOK_SECONDS)
        why = f"nothing moved for {STALLED_SECONDS:g} s" if now() >= stalled else "the time is over"
        return [f"{why}, {left} jobs are left: {standing}"]

    async def _open_books(self, troubles: Sequence[str]) -> Outcome:
        stage, options = self._stage, self._options
        gateway = await asyncio.to_thread(stage.gateway.ledger)
        connection = await asyncpg.connect(stage.servers.database_url)
        try:
            facts = await gather_facts(
                connection,
                self._wanted,
                gateway=gateway,
                carrier=await asyncio.to_thread(stage.carrier.ledger),
                mailbox=await asyncio.to_thread(stage.mailbox.ledger),
                logs=stage.logs,
            )
            rows = await count_rows(connection)
            return Outcome(
                seed=options.seed,
                facts=facts,
                plan=self._plan,
                struck=self._chaos.struck,
                asked_again=self._customers.asked_again,
                pruned=EVENTS_PER_ORDER * rows.orders - rows.events,
                troubles=troubles,
                strange_ends=[*self._keeper.strange_ends, *self._pruner.strange_ends],
                missing_pieces=await missing_pieces(connection, PIECES_PER_ORDER * options.orders),
                orders_in_all=rows.orders,
                holds=gateway["totals"]["authorizations"],
                open_ends=await open_ends(connection),
            )
        finally:
            await connection.close()
