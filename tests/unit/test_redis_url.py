"""Addresses of Redis servers, and what is kept out of texts."""

import ssl

import pytest

from homing.config.redis_url import Address, Credentials, Tls, Topology
from homing.errors import ConfigurationError
from homing.queue.redis import RedisUrl, parse_url


def at(host: str = "localhost", port: int = 6379, **parts: object) -> RedisUrl:
    """A single server with `parts`."""
    return RedisUrl(nodes=(Address(host, port),), **parts)  # type: ignore[arg-type]  # each test names the parts it needs


THREE = (Address("a", 1), Address("b", 26379), Address("::1", 3))


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("redis://cache", at("cache")),
        ("redis://", at()),
        ("redis://cache:6380/3", at("cache", 6380, db=3)),
        ("redis://cache/?db=2", at("cache", db=2)),
        ("redis://:p%40ss%2F%23@cache", at("cache", credentials=Credentials(None, "p@ss/#"))),
        ("redis://shop:s3cret@cache/1", at("cache", credentials=Credentials("shop", "s3cret"), db=1)),
        ("redis://shop:a%3Ab@cache", at("cache", credentials=Credentials("shop", "a:b"))),
        ("redis://[::1]:7000", at("::1", 7000)),
        ("rediss://cache", at("cache", tls=Tls())),
        ("rediss://cache?ssl_cert_reqs=none", at("cache", tls=Tls(verify=False))),
        ("rediss://cache?ssl_ca_certs=/ca.pem", at("cache", tls=Tls(ca_file="/ca.pem"))),
        ("rediss://cache?ssl_certfile=/c&ssl_keyfile=/k", at("cache", tls=Tls(cert_file="/c", key_file="/k"))),
        ("unix:///run/redis.sock", RedisUrl(nodes=(), path="/run/redis.sock")),
        (
            "unix://:pw@/run/redis.sock?db=4",
            RedisUrl(nodes=(), path="/run/redis.sock", credentials=Credentials(None, "pw"), db=4),
        ),
        (
            "redis+sentinel://shop:pw@a:1,b,[::1]:3/mymaster/2?sentinel_user=eye&sentinel_password=x%26y",
            RedisUrl(
                topology=Topology.SENTINEL,
                nodes=THREE,
                service="mymaster",
                db=2,
                credentials=Credentials("shop", "pw"),
                sentinel_credentials=Credentials("eye", "x&y"),
            ),
        ),
        (
            "rediss+cluster://:pw@a:1,b?ssl_ca_certs=/ca.pem",
            RedisUrl(
                topology=Topology.CLUSTER,
                nodes=(Address("a", 1), Address("b", 6379)),
                credentials=Credentials(None, "pw"),
                tls=Tls(ca_file="/ca.pem"),
            ),
        ),
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
        ("redis://a:1,b:2/0", "malformed host or port"),
        ("redis://cache:0", "malformed host or port"),
        ("rediss://cache?ssl_keyfile=/k", "ssl_certfile"),
        ("redis+sentinel://a,b", "names the service"),
        ("redis+sentinel://a:port/mymaster", "malformed host or port"),
        ("redis+sentinel://a/mymaster/one", "a number"),
        ("redis+sentinel://a/mymaster?ssl_ca_certs=/x", "unknown option 'ssl_ca_certs'"),
        ("redis+cluster://a,b/1", "no database but 0"),
        ("redis+cluster://a?db=1", "unknown option 'db'"),
        ("redis+proxy://a", "cannot start with"),
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
    sentinel = parse_url("redis+sentinel://:sesame@a,b:1/main?sentinel_password=sesame")
    assert "sesame" not in repr(sentinel)
    assert sentinel.label == "redis+sentinel://a:26379,b:1/main/0"
    assert parse_url("rediss+cluster://a,b").label == "rediss+cluster://a:6379,b:6379"


@pytest.mark.parametrize("prefix", ["shop", "{shop}"])
def test_on_a_cluster_the_prefix_is_a_hash_tag(prefix: str) -> None:
    """Elsewhere it is taken as it is given."""
    cluster, server = parse_url("redis+cluster://a"), parse_url("redis://a")
    assert (cluster.key_prefix(prefix), cluster.for_prefix(prefix).tag) == ("{shop}", "shop")
    assert (server.key_prefix(prefix), server.for_prefix(prefix)) == (prefix, server)


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
