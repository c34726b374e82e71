"""Addresses of Redis servers, and what is kept out of texts."""

import ssl

import pytest

from homing.errors import ConfigurationError
from homing.queue.redis import RedisUrl, parse_url


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("redis://cache", RedisUrl(host="cache")),
        ("redis://", RedisUrl()),
        ("redis://cache:6380/3", RedisUrl(host="cache", port=6380, db=3)),
        ("redis://cache/?db=2", RedisUrl(host="cache", db=2)),
        ("redis://:p%40ss%2F%23@cache", RedisUrl(host="cache", password="p@ss/#")),
        ("redis://shop:s3cret@cache/1", RedisUrl(host="cache", user="shop", password="s3cret", db=1)),
        ("redis://[::1]:7000", RedisUrl(host="::1", port=7000)),
        ("rediss://cache", RedisUrl(host="cache", tls=True)),
        ("rediss://cache?ssl_cert_reqs=none", RedisUrl(host="cache", tls=True, verify_tls=False)),
        ("rediss://cache?ssl_ca_certs=/ca.pem", RedisUrl(host="cache", tls=True, ca_file="/ca.pem")),
        ("unix:///run/redis.sock", RedisUrl(path="/run/redis.sock")),
        ("unix://:pw@/run/redis.sock?db=4", RedisUrl(path="/run/redis.sock", password="pw", db=4)),
    ],
)
def test_urls_are_read(url: str, expected: RedisUrl) -> None:
    """Every part of a URL lands in its field, decoded."""
    assert parse_url(url) == expected


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("http://cache", "cannot start with 'http'"),
        ("cache:6379", "cannot start with"),
        ("redis://cache/zero", "a number"),
        ("redis://cache/-1", "a number"),
        ("redis://cache:port", "malformed host or port"),
        ("redis://cache:99999", "malformed host or port"),
        ("redis://cache?timeout=3", "unknown option 'timeout'"),
        ("redis://cache?ssl_cert_reqs=none", "unknown option 'ssl_cert_reqs'"),
        ("rediss://cache?ssl_cert_reqs=maybe", "ssl_cert_reqs"),
        ("unix://run/redis.sock", "absolute path"),
        ("redis://[::1", "malformed"),
        ("redis://cache/0#x", "%23"),
    ],
)
def test_mistakes_are_explained(url: str, says: str) -> None:
    """A URL that cannot work is refused with what is wrong and how to write it."""
    with pytest.raises(ConfigurationError, match=says):
        parse_url(url)


@pytest.mark.parametrize("url", ["redis://:sesame#x@cache", "redis://u:sesame/x@cache", "redis://u:sesame@cache:bad"])
def test_errors_never_quote_a_password(url: str) -> None:
    """A password that was not encoded does not end up in the error, nor in its cause."""
    with pytest.raises(ConfigurationError) as raised:
        parse_url(url)
    assert "sesame" not in str(raised.value)
    assert raised.value.__cause__ is None
    assert raised.value.__suppress_context__ or raised.value.__context__ is None


def test_representations_hide_the_password() -> None:
    """Neither `repr` nor the label used in logs shows it."""
    url = parse_url("rediss://shop:sesame@cache/2")
    assert "sesame" not in repr(url)
    assert url.label == "rediss://cache:6379/2"
    assert parse_url("redis://[::1]").label == "redis://[::1]:6379/0"
    assert parse_url("unix:///r.sock").label == "unix:///r.sock?db=0"


def test_tls_terms_follow_the_url() -> None:
    """Certificates are verified unless the URL says otherwise; without TLS there is no context."""
    assert parse_url("redis://cache").ssl_context() is None
    strict = parse_url("rediss://cache").ssl_context()
    lax = parse_url("rediss://cache?ssl_cert_reqs=none").ssl_context()
    assert strict is not None
    assert lax is not None
    assert (strict.verify_mode, strict.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert (lax.verify_mode, lax.check_hostname) == (ssl.CERT_NONE, False)
    with pytest.raises(ConfigurationError, match="ssl_ca_certs"):
        parse_url("rediss://cache?ssl_ca_certs=/does/not/exist.pem").ssl_context()
