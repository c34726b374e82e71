"""The how-to about connecting names URLs that can be read."""

import re
from pathlib import Path

import pytest

from homing.config.redis_url import parse_url

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "howto" / "redis.md").read_text(encoding="utf-8")
URLS = re.findall(r"`((?:rediss?|unix)[+a-z]*://[^`]+)`", PAGE)


@pytest.mark.parametrize("url", URLS)
def test_a_url_of_the_page_is_one(url: str) -> None:
    """As written, with every option that it has."""
    assert "***" not in parse_url(url).label


def test_the_page_shows_every_kind() -> None:
    """One server, TLS, a socket, Sentinels and a cluster."""
    schemes = {url.partition("://")[0] for url in URLS}
    assert schemes == {
        "redis",
        "rediss",
        "unix",
        "redis+sentinel",
        "redis+cluster",
        "rediss+sentinel",
        "rediss+cluster",
    }
