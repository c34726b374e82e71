"""What a lifespan provides, and what handlers find."""

from typing import Protocol

import pytest

from homing import Event, Homing, Job, Provider
from homing.app import check_resources
from homing.errors import RegistrationError


class Paid(Event, topic="resources.paid", unrouted=True):
    amount: int = 1


class Gateway(Protocol):
    def pay(self) -> None: ...


class HttpGateway:
    def pay(self) -> None:
        """Pay."""


class Mailer:
    """A resource."""


def declared() -> Homing:
    """An app whose handler wants a gateway and a mailer."""
    app = Homing("test")

    @app.queue("pay").handler("capture", on=Paid, at_least_once=True)
    async def capture(event: Paid, gateway: Gateway, mail: Mailer, job: Job) -> None:
        """Capture."""

    return app


def test_a_resource_is_found_by_its_type_or_the_type_it_is_provided_as() -> None:
    """A protocol finds what was provided as it; a class finds its very own instances."""
    provide = Provider()
    gateway, mail = HttpGateway(), Mailer()
    provide(gateway, as_=Gateway)
    provide(mail)
    assert provide.get(Gateway) is gateway
    assert provide.get(Mailer) is mail
    assert provide.offers == ["Gateway", "Mailer"]
    with pytest.raises(KeyError):
        provide.get(HttpGateway)
    check_resources(declared().handlers, provide)


def test_providing_twice_is_refused() -> None:
    """Which of two a handler gets would depend on their order."""
    provide = Provider()
    provide(Mailer())
    with pytest.raises(RegistrationError, match="Mailer is provided twice: provide one of them as_= another type"):
        provide(Mailer())


def test_every_missing_resource_is_told_with_what_there_is() -> None:
    """The message names handler, place, parameter, type and the offers."""
    provide = Provider()
    provide(Mailer(), as_=HttpGateway)
    with pytest.raises(RegistrationError) as error:
        check_resources(declared().handlers, provide)
    text = str(error.value)
    assert f"pay.capture (declared.<locals>.capture ({__file__}:" in text
    assert "parameter 'gateway' wants Gateway" in text
    assert "parameter 'mail' wants Mailer" in text
    assert text.endswith("; the lifespan provides HttpGateway")


def test_a_type_with_arguments_is_told_from_the_one_without() -> None:
    """What is wanted and what is on offer never read the same where they do not fit."""
    app, provide = Homing("test"), Provider()
    provide({})

    @app.queue("pay").handler("capture", on=Paid, at_least_once=True)
    async def capture(event: Paid, prices: dict[str, int]) -> None:
        """Capture."""

    with pytest.raises(RegistrationError, match=r"wants dict\[str, int\]; the lifespan provides dict$"):
        check_resources(app.handlers, provide)


def test_an_app_without_resources_provides_nothing() -> None:
    """Without a lifespan the message says so."""
    with pytest.raises(RegistrationError, match="the lifespan provides nothing"):
        check_resources(declared().handlers, Provider())


def test_instances_are_found_by_kind() -> None:
    """A bridge finds session factories whatever type they were provided as."""
    provide = Provider()
    gateway = HttpGateway()
    provide(gateway, as_=Gateway)
    assert provide.instances(HttpGateway) == [gateway]
    assert provide.instances(Mailer) == []
