"""What a person sees at the end."""

from dataclasses import asdict

from rich.console import Console
from rich.table import Table

from shop.demo.dashboard import Entrance
from shop.demo.verdict import Ledger
from shop.trial.stage import Stage

_WORDS = {
    "orders": "orders in the database",
    "captured_once": "captured once, says the gateway",
    "captured_twice": "captured twice, says the gateway",
    "lost": "not paid or not shipped",
    "emails_missing": "confirmations that never arrived",
    "invoices_missing": "invoices that never arrived, one for all parcels of an order",
    "shipments": "shipments, says the carrier",
    "points_ok": "accounts with the right points",
    "redelivered": "deliveries started more than once",
    "duplicates_skipped": "runs that found their work done",
    "kills": "workers killed",
}


def show_table(ledger: Ledger, console: Console) -> None:
    """The numbers, with words."""
    table = Table(show_header=False)
    table.add_column(justify="right")
    table.add_column()
    for name, value in asdict(ledger).items():
        table.add_row(str(value), _WORDS[name])
    console.print(table)


def show_addresses(stage: Stage, entrance: Entrance, console: Console) -> None:
    """Where everything is, for a look around."""
    for name, address in (
        ("dashboard", str(entrance)),
        ("API", " ".join(stage.api_urls)),
        ("payment gateway", f"{stage.gateway.url}/_ledger"),
        ("carrier", f"{stage.carrier.url}/_ledger"),
        ("mail", f"{stage.mailbox.url}/_ledger"),
        ("PostgreSQL", stage.servers.database_url),
        ("Valkey", stage.servers.redis_url),
        ("logs", str(stage.logs)),
    ):
        console.print(f"{name:<16} {address}", markup=False)
    console.print("Ctrl-C ends it")
