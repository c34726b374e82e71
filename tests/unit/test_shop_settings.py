"""The shop's settings and its declared queues: wrong ones are named at start, right ones are the agreed numbers."""

from datetime import timedelta

import pytest

from homing.errors import ConfigurationError
from shop.config import load_database_settings, load_shop_settings
from shop.jobs import app

GOOD = {
    "DATABASE_URL": "postgresql://shop:secret@db/shop?sslmode=require",
    "SHOP_GATEWAY_URL": "http://gateway:8000/",
    "SHOP_CARRIER_URL": "https://carrier",
    "SHOP_CARRIER_API_KEY": "hush",
    "SHOP_SMTP_HOST": "mail",
    "SHOP_SMTP_PORT": "25",
}


def _environment(monkeypatch: pytest.MonkeyPatch, **changes: str | None) -> None:
    for name, value in {**GOOD, **changes}.items():
        if value is None:
            monkeypatch.delenv(name, raising=False)
        else:
            monkeypatch.setenv(name, value)


def test_a_complete_environment_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every variable lands where it belongs; outbound calls get ten seconds."""
    _environment(monkeypatch)
    settings = load_shop_settings()
    assert settings.gateway_url == "http://gateway:8000"
    assert settings.smtp_port == 25
    assert settings.request_timeout == 10.0
    assert settings.sqlalchemy_url.render_as_string(hide_password=False) == (
        "postgresql+asyncpg://shop:secret@db/shop?ssl=require"
    )
    assert "secret" not in repr(settings)
    assert "hush" not in repr(settings)


@pytest.mark.parametrize("name", sorted(GOOD))
def test_a_missing_variable_is_named(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """The error says which variable to set."""
    _environment(monkeypatch, **{name: None})
    with pytest.raises(ConfigurationError, match=f"{name} is not set"):
        load_shop_settings()


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("SHOP_GATEWAY_URL", "gateway", "'gateway': write it as http"),
        ("SHOP_SMTP_PORT", "70000", "'70000'"),
        ("SHOP_SMTP_PORT", "smtp", "'smtp'"),
        ("SHOP_REQUEST_TIMEOUT", "0", "'0'"),
        ("SHOP_REQUEST_TIMEOUT", "20", "SHOP_CHECKOUT_BUSY is 30 s and SHOP_REQUEST_TIMEOUT is 20 s"),
        ("SHOP_CHECKOUT_EXPIRY", "5", "SHOP_CHECKOUT_EXPIRY is 5 s and SHOP_CHECKOUT_BUSY is 30 s"),
        ("SHOP_SHIPPING_RATE", "0", "'0'"),
        ("SHOP_GATEWAY_URI", "http://x", "unknown variable SHOP_GATEWAY_URI: did you mean SHOP_GATEWAY_URL"),
    ],
)
def test_a_wrong_variable_is_named_with_its_value(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, told: str
) -> None:
    """The error names the variable, the value and what to write instead."""
    _environment(monkeypatch, **{name: value})
    with pytest.raises(ConfigurationError, match=told):
        load_shop_settings()


def test_a_wrong_database_url_does_not_show_its_password(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is wrong with it is said without repeating it."""
    _environment(monkeypatch, DATABASE_URL="mysql://shop:secret@db/shop")
    with pytest.raises(ConfigurationError, match="DATABASE_URL") as told:
        load_database_settings()
    assert "secret" not in str(told.value)


def test_variables_injected_by_kubernetes_are_no_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    """A service called shop gets SHOP_PORT and friends, which are none of ours."""
    _environment(monkeypatch, SHOP_SERVICE_HOST="10.0.0.1", SHOP_PORT="tcp://10.0.0.1:80")
    assert load_shop_settings().smtp_host == "mail"


def test_payments_have_long_patience_and_keep_every_failure() -> None:
    """12 attempts, 2 s to 15 min: 2,822 s at most; completed for 7 days, failed for ever, an alert for each."""
    app.load()
    payments = next(queue for queue in app.queues if queue.name == "payments")
    policy = next(handler.policy for handler in app.handlers if handler.consumer == "payments.capture-payment")
    assert policy.attempts == 12
    assert policy.backoff.horizon_seconds(12)[0] == 2822
    assert policy.keep_completed.age_seconds == timedelta(days=7).total_seconds()
    assert (policy.keep_failed.age_seconds, policy.keep_failed.count) == (None, None)
    assert policy.timeout_seconds == 45
    assert payments.alert == "each"


def test_shipping_stays_below_the_carriers_limit() -> None:
    """4 jobs a second, up to 2 requests each: 8 of the 10 that the carrier allows."""
    shipping = next(queue for queue in app.queues if queue.name == "shipping")
    assert shipping.concurrency == 4
    assert shipping.limit is not None
    assert (shipping.limit.jobs, shipping.limit.per) == (4, timedelta(seconds=1))


def test_the_shop_has_no_problems() -> None:
    """Every event of the shop has a consumer, and no name is taken twice."""
    app.load()
    assert app.problems() == []
