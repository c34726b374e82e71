"""The clean-up as a process: `python -m shop.maintenance --once`, or every minute until SIGTERM."""

import argparse
import asyncio
import logging
import signal
import sys

from homing.errors import HomingError, ServerUnavailable
from shop.assembly import build_clean_up, open_payments
from shop.config import ShopSettings, load_shop_settings
from shop.database import check_tables, open_engine, sessions_of
from shop.maintenance.expired import ExpiredCheckouts, Swept

logger = logging.getLogger("shop.maintenance")


async def sweep(settings: ShopSettings, *, every_seconds: float | None) -> Swept:
    """Clean up once (`every_seconds=None`), or again and again until SIGTERM or SIGINT; returns what the last round did."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    engine = open_engine(settings.sqlalchemy_url)
    sessions = sessions_of(engine)
    try:
        await check_tables(engine)
        async with open_payments(settings, sessions) as payments:
            clean_up = build_clean_up(settings, sessions, payments)
            if every_seconds is None:
                return await _round(clean_up)
            while True:
                swept = await _try_round(clean_up)
                if await _is_set(stop, every_seconds):
                    return swept
    finally:
        await engine.dispose()


async def _round(clean_up: ExpiredCheckouts) -> Swept:
    swept = await clean_up.release()
    logger.info("released=%d voided=%d failed=%d", swept.released, swept.voided, swept.failed)
    return swept


async def _try_round(clean_up: ExpiredCheckouts) -> Swept:
    try:
        return await _round(clean_up)
    except Exception:  # a database that is away for a minute must not end the clean-up for good
        logger.exception("this round failed; the next one tries again")
        return Swept(failed=1)


async def _is_set(stop: asyncio.Event, timeout_seconds: float) -> bool:
    try:
        await asyncio.wait_for(stop.wait(), timeout_seconds)
    except TimeoutError:
        return False
    return True


def main(arguments: list[str]) -> int:
    """Exit status 0; 1 when something could not be undone; 3 when settings or tables are wrong, 4 when PostgreSQL is."""
    parser = argparse.ArgumentParser(prog="python -m shop.maintenance", description=__doc__)
    parser.add_argument("--once", action="store_true", help="one round, then end")
    parser.add_argument("--every", type=float, default=60.0, metavar="SECONDS", help="pause between rounds")
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    try:
        swept = asyncio.run(sweep(load_shop_settings(), every_seconds=None if options.once else options.every))
    except HomingError as error:
        sys.stderr.write(f"{error}\n")
        return 4 if isinstance(error, ServerUnavailable) else 3
    return 1 if swept.failed else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
