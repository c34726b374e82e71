import os
from pathlib import Path

import pytest

from homing.embedded import identity
from homing.embedded.identity import Account, account_for, closed_folder_above
from homing.errors import ConfigurationError

STRANGER = 54_321  # an id that owns nothing here

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root has to choose an account")


def test_closed_folder_is_found_by_its_mode(tmp_path: Path) -> None:
    """The folder that stops another user is named, the open ones around it are not."""
    closed = tmp_path / "closed"
    (closed / "open").mkdir(parents=True)
    closed.chmod(0o700)
    tmp_path.chmod(0o711)
    found = closed_folder_above(closed / "open" / "data", STRANGER, STRANGER)
    assert found in {closed, *tmp_path.parents}
    closed.chmod(0o711)
    assert closed_folder_above(closed / "open" / "data", STRANGER, STRANGER) != closed


def test_owner_may_pass_what_others_may_not(tmp_path: Path) -> None:
    """Mode 0700 stops strangers only."""
    tmp_path.chmod(0o700)
    assert closed_folder_above(tmp_path / "data", os.getuid(), os.getgid()) is None
    assert closed_folder_above(tmp_path / "data", STRANGER, STRANGER) is not None


def test_account_that_cannot_pass_is_refused_with_the_folder(tmp_path: Path) -> None:
    """The error names the user, the closed folder and the ways out."""
    tmp_path.chmod(0o700)
    with pytest.raises(ConfigurationError, match=rf"(?s)user id {STRANGER} it cannot pass /.*Run as a normal user"):
        Account(uid=STRANGER, gid=STRANGER).require_passage(tmp_path / "data")


@pytest.mark.skipif(os.geteuid() == 0, reason="root cannot stay root")
def test_normal_user_stays_who_it_is(tmp_path: Path) -> None:
    """Without root there is nothing to change."""
    assert account_for(tmp_path / "data") == Account()


@as_root
def test_root_uses_a_namespace_where_it_can(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With namespaces no other user of the machine is involved."""
    monkeypatch.setattr(identity, "namespace_prefix", lambda: ("unshare",))
    assert account_for(tmp_path / "data") == Account(prefix=("unshare",))


@as_root
def test_root_becomes_a_service_user_elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where namespaces are refused the account is an existing user that is not root."""
    monkeypatch.setattr(identity, "namespace_prefix", lambda: None)
    assert account_for(tmp_path / "data").uid not in {None, 0}


@as_root
def test_data_of_a_user_stays_with_that_user(tmp_path: Path) -> None:
    """A folder made by a normal user is never opened under another name."""
    data = tmp_path / "data"
    data.mkdir()
    os.chown(data, STRANGER, STRANGER)
    assert account_for(data) == Account(uid=STRANGER, gid=STRANGER)
