"""Who PostgreSQL runs as, since it refuses to run as root."""

import os
import pwd
import shutil
import stat
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from homing.errors import ConfigurationError

NOBODY_ID = 65534
SERVICE_USERS = ("postgres", "nobody")


@dataclass(frozen=True)
class Account:
    """The user that the server's processes get: ours (the default), one inside a user namespace, or another one.

    With `uid` set the data folder must belong to that user, who must also be able to walk to it and to the binaries.
    """

    prefix: tuple[str, ...] = ()
    uid: int | None = None
    gid: int | None = None

    @property
    def folder_mode(self) -> int:
        """The mode for the folders that we create above the data: another user must be able to pass, not to look."""
        return 0o700 if self.uid is None else 0o711

    def take_over(self, path: Path) -> None:
        """Hand one file or folder of ours to this account; everything above it stays as it is."""
        if self.uid is not None and self.gid is not None:
            os.chown(path, self.uid, self.gid)

    def require_passage(self, path: Path) -> None:
        """Raise `ConfigurationError` when this account cannot walk to `path`."""
        if self.uid is not None and self.gid is not None:
            uid, gid, who = self.uid, self.gid, f"as user id {self.uid}"
        elif self.prefix:
            uid, gid, who = 0, 0, "inside a user namespace, without root's rights over the files of others,"
        else:
            return
        if closed := closed_folder_above(path, uid, gid):
            raise ConfigurationError(
                f"PostgreSQL refuses to run as root, and {who} it cannot pass {closed} on the way to {path}. Run as a "
                f"normal user, or use a home and an installation in folders that everybody may pass, or set DATABASE_URL."
            )


def account_for(data: Path) -> Account:
    """Choose the account for this data folder; changes nothing on the machine.

    Root runs PostgreSQL in a user namespace: inside it is nobody, outside all files stay root's, so that closed
    folders stay closed. Where the kernel refuses namespaces, root becomes user postgres or nobody. A folder
    that a normal user made keeps that user.
    """
    if os.geteuid() != 0:
        return Account()
    if data.exists() and (owner := data.stat()).st_uid != 0:
        return Account(uid=owner.st_uid, gid=owner.st_gid)
    if prefix := namespace_prefix():
        return Account(prefix=prefix)
    return _service_account()


def namespace_prefix() -> tuple[str, ...] | None:
    """Return the command prefix that drops root inside a user namespace, or None where that is refused."""
    unshare = shutil.which("unshare") if sys.platform.startswith("linux") else None
    if unshare is None:
        return None
    prefix = (unshare, "--user", f"--map-user={NOBODY_ID}", f"--map-group={NOBODY_ID}", "--")
    tried = subprocess.run([*prefix, "true"], stdin=subprocess.DEVNULL, capture_output=True, check=False)
    return prefix if tried.returncode == 0 else None


def closed_folder_above(path: Path, uid: int, gid: int) -> Path | None:
    """Return the topmost existing folder above `path` that this user cannot pass through, by its mode bits."""
    for folder in reversed(path.resolve().parents):
        if folder.exists() and not _may_pass(folder.stat(), uid, gid):
            return folder
    return None


def _may_pass(status: os.stat_result, uid: int, gid: int) -> bool:
    if status.st_uid == uid:
        return bool(status.st_mode & stat.S_IXUSR)
    if status.st_gid == gid:
        return bool(status.st_mode & stat.S_IXGRP)
    return bool(status.st_mode & stat.S_IXOTH)


def _service_account() -> Account:
    users = {entry.pw_name: entry for entry in pwd.getpwall() if entry.pw_uid != 0}
    for name in SERVICE_USERS:
        if name in users:
            return Account(uid=users[name].pw_uid, gid=users[name].pw_gid)
    raise ConfigurationError(
        f"PostgreSQL refuses to run as root, user namespaces are not allowed here, and none of the users "
        f"{', '.join(SERVICE_USERS)} exists. Run as a normal user, or set DATABASE_URL."
    )
