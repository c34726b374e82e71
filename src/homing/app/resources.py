"""What handlers may ask for by type: made by the app's lifespan once per worker process, closed after the last job."""

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager
from typing import Any, get_args

from homing.app.handlers import Handler, Parameter
from homing.errors import RegistrationError

Lifespan = Callable[["Provider"], AbstractAsyncContextManager[None]]
LifespanFunction = Callable[["Provider"], AsyncIterator[None]]


class Provider:
    """Collects resources by type: `provide(mailer)`, or `provide(gateway, as_=PaymentGateway)` for a protocol."""

    def __init__(self) -> None:
        self._values: dict[Any, Any] = {}

    def __call__(self, value: object, *, as_: Any = None) -> None:
        key = type(value) if as_ is None else as_
        if key in self._values:
            raise RegistrationError(f"{describe_type(key)} is provided twice: provide one of them as_= another type")
        self._values[key] = value

    def get(self, wanted: Any) -> Any:
        """The resource of that very type; `KeyError` when there is none."""
        return self._values[wanted]

    def instances(self, kind: type) -> list[Any]:
        """Every resource that is an instance of `kind`."""
        return [value for value in self._values.values() if isinstance(value, kind)]

    @property
    def offers(self) -> list[str]:
        """The types on offer, by name."""
        return sorted(describe_type(key) for key in self._values)


def check_resources(handlers: Iterable[Handler], provider: Provider) -> None:
    """Raise a `RegistrationError` that lists every parameter no resource can fill."""
    missing = [
        f"{handler.consumer} ({handler.location}): parameter {parameter.name!r} wants {describe_type(parameter.type)}"
        for handler in handlers
        for parameter in handler.parameters
        if parameter.kind == "resource" and not _offered(parameter, provider)
    ]
    if missing:
        offers = ", ".join(provider.offers) or "nothing"
        raise RegistrationError("; ".join(missing) + f"; the lifespan provides {offers}")


def describe_type(kind: Any) -> str:
    """A type's short name; where it has arguments, with them, since `dict` does not fill `dict[str, int]`."""
    return str(kind) if get_args(kind) else getattr(kind, "__qualname__", None) or str(kind)


def _offered(parameter: Parameter, provider: Provider) -> bool:
    try:
        provider.get(parameter.type)
    except KeyError:
        return False
    return True
