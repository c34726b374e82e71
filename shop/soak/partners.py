"""What happens at the partners: they do what they were asked and deny it, do not answer, or have no time for us."""

import asyncio

from shop.soak.scene import Scene

MOST_CALLS = 5
THROTTLED_SECONDS = 4.0


async def gateway_lies(scene: Scene, pick: float) -> str:
    """The next calls have their effect and say that they failed, by an answer or by none."""
    calls, how = _calls(pick), "cut" if pick < 0.5 else "error"
    await asyncio.to_thread(scene.stage.gateway.control, fail_after_effect=calls, fail_with=how)
    return f"{calls} calls, {how}"


async def gateway_hangs(scene: Scene, pick: float) -> str:
    """The next calls are never answered, half of them after their effect."""
    calls = _calls(pick)
    await asyncio.to_thread(scene.stage.gateway.control, hang=calls // 2, hang_after_effect=calls - calls // 2)
    return f"{calls} calls"


async def carrier_lies(scene: Scene, pick: float) -> str:
    """The next parcels are taken, and the connection is cut before that is said."""
    calls = _calls(pick)
    await asyncio.to_thread(scene.stage.carrier.control, fail_after_effect=calls, fail_with="cut")
    return f"{calls} calls"


async def carrier_throttles(scene: Scene, pick: float) -> str:
    """For a while it takes one or two calls a second and answers the others with 429."""
    carrier = scene.stage.carrier
    async with scene.carrier_turn:
        before = (await asyncio.to_thread(carrier.control))["throttle"]
        await asyncio.to_thread(carrier.control, throttle=1 + round(pick))
        try:
            await asyncio.sleep(THROTTLED_SECONDS)
        finally:
            carrier.control(throttle=before)
    return f"for {THROTTLED_SECONDS:g} s"


async def mail_lies(scene: Scene, pick: float) -> str:
    """The next messages are taken and then refused; one more is taken without a word."""
    calls = _calls(pick)
    await asyncio.to_thread(scene.stage.mailbox.control, fail_after_effect=calls, hang_after_effect=1)
    return f"{calls} messages"


def _calls(pick: float) -> int:
    return 1 + int(pick * MOST_CALLS)
