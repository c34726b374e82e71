"""The web process: `python -m shop.api`. It records events in its own transactions, and never meets Redis or a handler."""

import argparse
import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import FastAPI

from homing.asgi import TraceMiddleware
from homing.errors import HomingError, ServerUnavailable
from shop import problems
from shop.assembly import build_orders, open_payments
from shop.config import ShopSettings, load_shop_settings
from shop.database import check_tables, open_engine, sessions_of
from shop.orders.routes import router
from shop.serving import serve

UNUSABLE, UNREACHABLE = 3, 4


def create_api(settings: ShopSettings) -> FastAPI:
    """The API over these settings. Building it opens nothing; starting it checks that the tables are there."""

    @asynccontextmanager
    async def lifespan(api: FastAPI) -> AsyncIterator[None]:
        engine = open_engine(settings.sqlalchemy_url)
        sessions = sessions_of(engine)
        try:
            await check_tables(engine)
            async with open_payments(settings, sessions) as payments:
                api.state.orders = build_orders(settings, sessions, payments)
                yield
        finally:
            await engine.dispose()

    api = FastAPI(title="Shop", lifespan=lifespan)
    api.add_middleware(TraceMiddleware)
    api.include_router(router)
    problems.install(api)
    return api


def main(arguments: list[str]) -> int:
    """Serve until told to stop; exit status 3 when settings or tables are wrong, 4 when PostgreSQL is."""
    parser = argparse.ArgumentParser(prog="python -m shop.api", description=__doc__)
    parser.add_argument("--port", type=int, default=8000, help="on loopback; 0 takes a free one")
    parser.add_argument("--ready-file", type=Path, help="written once the API answers: its address as JSON")
    options = parser.parse_args(arguments)
    try:
        settings = load_shop_settings()
        asyncio.run(check(settings))
    except HomingError as error:
        sys.stderr.write(f"{error}\n")
        return UNREACHABLE if isinstance(error, ServerUnavailable) else UNUSABLE
    serve(create_api(settings), port=options.port, ready_file=options.ready_file)
    return 0


async def check(settings: ShopSettings) -> None:
    """Say what is missing in one line, before a server is started that could only say it in a traceback."""
    engine = open_engine(settings.sqlalchemy_url)
    try:
        await check_tables(engine)
    finally:
        await engine.dispose()


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
