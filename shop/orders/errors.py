"""Why an order was not placed, found or cancelled: what a customer is told, without any word about HTTP or queues."""

from uuid import UUID


class OrderError(Exception):
    """The root of what the orders module refuses."""


class OrderNotFoundError(OrderError):
    """There is no such order."""

    def __init__(self, order_id: UUID) -> None:
        super().__init__(f"there is no order {order_id}")


class CannotCancelError(OrderError):
    """The money was captured already: from here on only a refund helps, and that is a person's decision."""

    def __init__(self, order_id: UUID) -> None:
        super().__init__(f"order {order_id} is paid: it can be returned, not cancelled")


class KeyReusedError(OrderError):
    """The idempotency key belongs to a request that said something else."""

    def __init__(self, key: str) -> None:
        super().__init__(f"idempotency key {key!r} was used for another order: use a new key for a new order")


class CheckoutInProgressError(OrderError):
    """Another request with this key is at work right now."""

    def __init__(self, key: str) -> None:
        super().__init__(f"a request with idempotency key {key!r} is in progress: ask again shortly")


class CheckoutExpiredError(OrderError):
    """The checkout was never finished and has been undone: stock and money are free again."""

    def __init__(self, key: str) -> None:
        super().__init__(f"the checkout with idempotency key {key!r} has expired: start again with a new key")


class PaymentRefusedError(OrderError):
    """The gateway will not hold the money, now or later."""


class PaymentUnavailableError(OrderError):
    """The gateway gave no usable answer; nothing is decided, and the same key may be tried again."""

    def __init__(self, key: str) -> None:
        super().__init__(f"the payment could not be checked: ask again with the same idempotency key {key!r}")
