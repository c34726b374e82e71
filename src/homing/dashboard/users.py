"""Who may log in: a file with one user a line, `name:role:hash`. Passwords are stored as argon2id hashes alone."""

import asyncio
import hashlib
import logging
import os
import re
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkstemp

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from homing.errors import ConfigurationError
from homing.ledger.actions import Role

log = logging.getLogger("homing.dashboard")

SHORTEST_PASSWORD = 12

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,99}")

# 19 MiB and one lane: what OWASP asks for at least, so that a login does not double the memory of the process.
_HASHER = PasswordHasher(time_cost=2, memory_cost=19 * 1024, parallelism=1)
_NOBODYS = _HASHER.hash("nobody has this password")


@dataclass(frozen=True, slots=True)
class User:
    """Somebody who may log in."""

    name: str
    role: Role
    password_hash: str

    @property
    def mark(self) -> str:
        """Changes with password and role: a session that carries another one is over."""
        return hashlib.sha256(f"{self.role.name}:{self.password_hash}".encode()).hexdigest()[:16]

    @property
    def line(self) -> str:
        """The user as a line of the file."""
        return f"{self.name}:{self.role.name.lower()}:{self.password_hash}"


def make_user(name: str, role: Role, password: str) -> User:
    """A user with a hash of the password; a `ConfigurationError` for a name or a password that cannot be one."""
    if _NAME.fullmatch(name) is None:
        raise ConfigurationError(f"{name!r} is no user name: letters, digits and . _ @ - are, up to 100 of them")
    if len(password) < SHORTEST_PASSWORD:
        raise ConfigurationError(f"the password has {len(password)} characters: take {SHORTEST_PASSWORD} or more")
    return User(name, role, _HASHER.hash(password))


def read_users(file: Path) -> dict[str, User]:
    """The users of a file, by name; a `ConfigurationError` names the line that is none. Empty lines and those with `#` are skipped."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"the file of users {file} cannot be read: {error}") from error
    users: dict[str, User] = {}
    for number, line in enumerate(lines, 1):
        if line.strip() and not line.lstrip().startswith("#"):
            user = _read(line.strip(), f"{file}, line {number}")
            if user.name in users:
                raise ConfigurationError(f"{file}, line {number}: there are two users {user.name!r}")
            users[user.name] = user
    return users


def write_user(file: Path, user: User) -> None:
    """Put a user into a file, in the place of one of the same name; the file is readable by its owner alone.

    The new file takes the place of the old one whole: whoever is killed in between leaves the old one.
    """
    users = read_users(file) if file.exists() else {}
    users[user.name] = user
    _replace(file.resolve(), "".join(f"{each.line}\n" for each in users.values()))


def _replace(file: Path, text: str) -> None:
    """The owner stays: an administrator who adds somebody must not lock the dashboard out of its own file."""
    descriptor, name = mkstemp(prefix=f".{file.name}.", dir=file.parent)  # readable by its owner alone
    new = Path(name)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        if file.exists():
            found = file.stat()
            os.chown(new, found.st_uid, found.st_gid)
        new.replace(file)
    except BaseException:
        new.unlink(missing_ok=True)
        raise


def add_user(file: Path, name: str, role: Role, password: str) -> None:
    """Put somebody into a file of users; a `ConfigurationError` for a name or a password that cannot be one."""
    write_user(file, make_user(name, role, password))


class Users:
    """The users of a file, read again when it changes. One that cannot be read any more leaves those that were, and says so once."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._users = read_users(file)
        self._seen = self._stamp()
        self._one_at_a_time = asyncio.Semaphore(1)

    def find(self, name: str) -> User | None:
        """The user of that name, as the file says now."""
        stamp = self._stamp()
        if stamp != self._seen:
            self._seen = stamp
            try:
                self._users = read_users(self._file)
            except ConfigurationError:
                log.exception("the users stay as they were")
        return self._users.get(name)

    async def check(self, name: str, password: str) -> User | None:
        """The user, if that is the password. It takes as long for a name that nobody has, and one check runs at a time."""
        user = self.find(name)
        async with self._one_at_a_time:
            right = await asyncio.to_thread(_is_right, _NOBODYS if user is None else user.password_hash, password)
        return user if right else None

    def _stamp(self) -> tuple[int, int] | None:
        try:
            found = self._file.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size


def _is_right(password_hash: str, password: str) -> bool:
    try:
        return _HASHER.verify(password_hash, password)
    except VerificationError:
        return False


def _read(line: str, where: str) -> User:
    name, _, rest = line.partition(":")
    role, _, password_hash = rest.partition(":")
    roles = {each.name.lower(): each for each in Role}
    if _NAME.fullmatch(name) is None or role not in roles:
        raise ConfigurationError(f"{where} is no user: write name:role:hash, the role one of {', '.join(roles)}")
    try:
        _HASHER.check_needs_rehash(password_hash)
    except InvalidHashError as error:
        raise ConfigurationError(
            f"{where}: what user {name!r} has is no argon2 hash: `homing dashboard --add-user {name}` makes one"
        ) from error
    return User(name, roles[role], password_hash)
