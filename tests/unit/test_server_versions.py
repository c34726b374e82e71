"""Servers that are too old are refused by their version, before anything is asked of them."""

import pytest

from homing.errors import UnsuitableServer
from homing.schema.identity import OLDEST_POSTGRES, require_postgres_version


@pytest.mark.parametrize("major", [9, 12, OLDEST_POSTGRES - 1])
def test_an_old_postgres_is_refused_with_both_versions(major: int) -> None:
    """The text names the server's version, the one needed, and what to do."""
    with pytest.raises(UnsuitableServer) as refused:
        require_postgres_version(major)
    assert f"PostgreSQL {major}" in str(refused.value)
    assert f"needs {OLDEST_POSTGRES}" in str(refused.value)
    assert "DATABASE_URL" in str(refused.value)


@pytest.mark.parametrize("major", [OLDEST_POSTGRES, 15, 18, 19])
def test_a_new_enough_postgres_is_taken(major: int) -> None:
    """Fourteen and everything after it."""
    require_postgres_version(major)
