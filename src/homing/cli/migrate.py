"""`homing migrate`: the tables, made or printed."""

import asyncio
from typing import Annotated

import typer

from homing.cli.database import connected
from homing.cli.output import show_json
from homing.cli.session import Session, session_of
from homing.config.settings import Settings
from homing.schema import check_schema, grants, migrate, script
from homing.schema.identity import LedgerIdentity
from homing.schema.rights import grant


def migrate_verb(
    context: typer.Context,
    *,
    sql: Annotated[bool, typer.Option("--sql", help="Print the statements and run none.")] = False,
    from_: Annotated[int, typer.Option("--from", min=0, help="With --sql: the version to start from.")] = 0,
    to: Annotated[int | None, typer.Option("--to", help="The version to end at; the newest otherwise.")] = None,
    grant_to: Annotated[str | None, typer.Option(help="Let this role work with the tables.", metavar="ROLE")] = None,
) -> None:
    """Bring the tables of the database to the version of this code."""
    session = session_of(context)
    settings = session.settings()
    if sql:
        typer.echo(script(from_, to, engine=settings.engine), nl=False)
        if grant_to is not None:
            typer.echo(grants(grant_to), nl=False)
        return
    if from_:
        raise typer.BadParameter("it goes with --sql: a database knows itself what it lacks", param_hint="--from")
    applied, identity = asyncio.run(_migrate(settings, to, grant_to))
    _report(session, applied, identity)


async def _migrate(settings: Settings, to: int | None, role: str | None) -> tuple[list[str], LedgerIdentity | None]:
    async with connected(settings.asyncpg_dsn) as connection:
        applied = await migrate(connection, engine=settings.engine, to=to)
        if role is not None:
            await grant(connection, role)
        identity = await check_schema(connection, engine=settings.engine) if to is None else None
        return applied, identity


def _report(session: Session, applied: list[str], identity: LedgerIdentity | None) -> None:
    if session.json:
        ledger = None if identity is None else {"id": str(identity.ledger_id), "engine": identity.engine}
        show_json({"applied": applied, "ledger": ledger})
        return
    for name in applied:
        typer.echo(f"applied {name}")
    if identity is not None:
        typer.echo(f"ledger {identity.ledger_id}, version {identity.version}, engine {identity.engine}")
