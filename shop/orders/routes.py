"""The HTTP side of orders. Each endpoint has committed before its answer leaves."""

from typing import Annotated, Literal
from uuid import UUID

from fastapi import APIRouter, Depends, Header, Request, Response
from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from shop.orders.order import Order
from shop.orders.service import OrdersService
from shop.orders.wish import Wish
from shop.payments.port import PaymentStatus
from shop.problems import ProblemError

MAX_KEY_LENGTH = 200

router = APIRouter()


class OrderView(BaseModel):
    """What a customer sees of an order; amounts in whole dong."""

    model_config = ConfigDict(alias_generator=to_camel, validate_by_name=True, serialize_by_alias=True)

    id: UUID
    customer_id: UUID
    status: Literal["placed", "cancelled"]
    payment: PaymentStatus | None
    total: int

    @classmethod
    def of(cls, order: Order, payment: PaymentStatus | None) -> "OrderView":
        return cls(id=order.id, customer_id=order.customer_id, status=order.status, payment=payment, total=order.total)


def orders_service(request: Request) -> OrdersService:
    """The service that the running API was built with."""
    service = request.app.state.orders
    if not isinstance(service, OrdersService):
        raise TypeError("the API was not started: its lifespan builds the services")
    return service


def idempotency_key(key: Annotated[str | None, Header(alias="Idempotency-Key")] = None) -> str:
    """The key of a request that must not count twice: 1 to 200 printable ASCII characters."""
    if key is None:
        raise ProblemError(400, "idempotency key missing", "send an Idempotency-Key, the same for each retry")
    if not 1 <= len(key) <= MAX_KEY_LENGTH or not key.isascii() or not key.isprintable():
        detail = f"an Idempotency-Key is 1 to {MAX_KEY_LENGTH} printable ASCII characters, not {key[:50]!r}"
        raise ProblemError(400, "idempotency key invalid", detail)
    return key


Service = Annotated[OrdersService, Depends(orders_service)]


@router.post("/orders", status_code=201)
async def place_order(
    wish: Wish, key: Annotated[str, Depends(idempotency_key)], service: Service, response: Response
) -> OrderView:
    """Place an order: 201, or 200 with the order that this key placed before."""
    placed = await service.place_order(wish, key)
    response.headers["Location"] = f"/orders/{placed.order.id}"
    if placed.replayed:
        response.status_code = 200
        response.headers["Idempotent-Replayed"] = "true"
    return OrderView.of(placed.order, await service.payment_status(placed.order.id))


@router.get("/orders/{order_id}")
async def get_order(order_id: UUID, service: Service) -> OrderView:
    """An order as it is now."""
    return OrderView.of(await service.get(order_id), await service.payment_status(order_id))


@router.post("/orders/{order_id}/cancel")
async def cancel_order(order_id: UUID, service: Service) -> OrderView:
    """Cancel an order that is not paid yet; again is fine."""
    return OrderView.of(await service.cancel(order_id), await service.payment_status(order_id))
