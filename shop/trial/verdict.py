"""From facts to numbers, and from numbers to what was promised. Pure."""

from dataclasses import asdict, dataclass

from shop.trial.facts import Facts


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """The numbers that every trial ends with."""

    orders: int
    captured_once: int
    captured_twice: int
    lost: int
    emails_missing: int
    invoices_missing: int
    shipments: int
    points_ok: int
    redelivered: int
    duplicates_skipped: int

    def line(self) -> str:
        """The last line of the output, for machines."""
        return "ledger: " + " ".join(f"{name}={value}" for name, value in asdict(self).items())


def count(facts: Facts) -> Ledger:
    """Count what was promised: an order is lost unless the gateway and our tables agree that it is paid, and the carrier that it is shipped."""
    orders = facts.orders
    kept = [
        order
        for order in orders
        if order.captured and order.captures and order.shipped and order.parcels >= order.parcels_due
    ]
    return Ledger(
        orders=len(orders),
        captured_once=sum(order.captures == 1 for order in orders),
        captured_twice=sum(order.captures > 1 for order in orders),
        lost=facts.wanted - len(kept),
        emails_missing=facts.wanted - sum(order.messages > 0 for order in orders),
        invoices_missing=facts.wanted - sum(order.invoices > 0 for order in orders),
        shipments=sum(order.parcels for order in orders),
        points_ok=sum(order.points_right for order in orders),
        redelivered=facts.redelivered,
        duplicates_skipped=facts.duplicates_skipped,
    )


def broken_promises(ledger: Ledger, facts: Facts) -> list[str]:
    """What is wrong, in words; empty when every promise was kept."""
    wanted, parcels = facts.wanted, sum(order.parcels_due for order in facts.orders)
    found = {
        f"{ledger.captured_twice} orders were captured twice": ledger.captured_twice,
        f"{ledger.lost} orders were lost": ledger.lost,
        f"{ledger.emails_missing} confirmations were never sent": ledger.emails_missing,
        f"{ledger.invoices_missing} invoices were never sent": ledger.invoices_missing,
        f"{ledger.shipments} shipments for {parcels} parcels": ledger.shipments != parcels,
        f"points are right for {ledger.points_ok} of {wanted} orders": ledger.points_ok != wanted,
        f"{facts.unsettled} deliveries are unfinished": facts.unsettled,
        f"{facts.dead} deliveries are dead": facts.dead,
    }
    return [words for words, wrong in found.items() if wrong]
