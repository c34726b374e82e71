"""PostgreSQL in a folder: TCP on loopback with a password, data checksums, UTF-8."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from signal import SIGINT, SIGQUIT
from urllib.parse import quote

from homing.embedded.binaries import PostgresBinaries, find_postgres
from homing.embedded.identity import account_for
from homing.embedded.lifecycle import EmbeddedServer
from homing.embedded.processes import clean_environment, program_of, run_to_end
from homing.errors import ConfigurationError, ServerUnavailable

DEFAULT_SETTINGS: Mapping[str, str] = {
    "max_connections": "100",
    "shared_buffers": "64MB",
    "password_encryption": "scram-sha-256",
    "timezone": "UTC",
    "log_timezone": "UTC",
}
OWN_SETTINGS = frozenset({"port", "listen_addresses", "unix_socket_directories", "data_directory"})
BUILTIN_LOCALE_SINCE = 17

fast_test_settings: Mapping[str, str] = {
    "fsync": "off",
    "full_page_writes": "off",
}
"""For tests: no commit waits for a disk. Commits survive kill -9 of the server, but not the loss of power.

`synchronous_commit` stays on: without it a killed server forgets what it had confirmed.
"""

_CREATE_DATABASE = "SELECT format('CREATE DATABASE %I', :'name') WHERE NOT EXISTS (SELECT FROM pg_database WHERE datname = :'name') \\gexec\n"


class EmbeddedPostgres(EmbeddedServer):
    """A PostgreSQL server in `home`; `user` is its superuser, `database` exists after each start."""

    name = "PostgreSQL"
    stop_signal = SIGINT  # "fast": ends sessions and shuts down cleanly
    immediate_signal = SIGQUIT

    def __init__(
        self,
        home: Path,
        *,
        user: str = "homing",
        database: str = "homing",
        settings: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(home)
        self.user = user
        self.database = database
        self._settings = {**DEFAULT_SETTINGS, **(settings or {})}
        if own := sorted(OWN_SETTINGS & self._settings.keys()):
            raise ConfigurationError(
                f"PostgreSQL settings {', '.join(own)} belong to the embedded server: leave them out."
            )
        self._cached_binaries: PostgresBinaries | None = None

    def url(self, database: str | None = None) -> str:
        """Return `postgresql://user:password@127.0.0.1:port/database`, valid across restarts."""
        place = f"127.0.0.1:{self.port}/{quote(self.database if database is None else database, safe='')}"
        return f"postgresql://{quote(self.user, safe='')}:{self._folder.password}@{place}"

    @property
    def _pid_file(self) -> Path:
        return self._folder.data / "postmaster.pid"

    def _may_be_ours(self, pid: int) -> bool:
        # The file of a killed server stays until the next one writes its own, so the number may be anybody's by now.
        return "postgres" in (program_of(pid) or "")

    @property
    def _binaries(self) -> PostgresBinaries:
        if self._cached_binaries is None:
            self._cached_binaries = find_postgres()
        return self._cached_binaries

    def _prepare_folder(self) -> None:
        binaries = self._binaries
        self._account = account_for(self._folder.data)
        self._folder.create(self._account.folder_mode)
        self._refuse_foreign_major()
        self._account.require_passage(self._folder.data)
        self._account.require_passage(binaries.folder / "postgres")

    def _refuse_foreign_major(self) -> None:
        try:
            made_by = int((self._folder.data / "PG_VERSION").read_text())
        except FileNotFoundError:
            return
        except PermissionError as error:
            raise ConfigurationError(
                f"{self._folder.data} belongs to another user (we are user id {os.geteuid()}): choose another home, or "
                f"give the folder to this user."
            ) from error
        if made_by != self._binaries.major:
            raise ConfigurationError(
                f"{self._folder.data} was made by PostgreSQL {made_by}, but {self._binaries.folder} holds "
                f"PostgreSQL {self._binaries.major}, which cannot open it. Use another home, or set HOMING_EMBEDDED_PG_BIN to the bin "
                f"folder of a PostgreSQL {made_by}, or dump there and restore here."
            )

    def _prepare_data(self, server_lock: int) -> None:
        if (self._folder.data / "PG_VERSION").exists():
            if not self._folder.has_password:
                raise ConfigurationError(
                    f"{self._folder.password_file} is missing, so nobody can log in to the data beside it: restore "
                    f"that file, or use another home."
                )
            return
        self._folder.ensure_password()
        self._initialise(server_lock)

    def _initialise(self, server_lock: int) -> None:
        unfinished = self._folder.home / "data.new"  # renamed when complete: a killed initdb leaves no half cluster
        if unfinished.exists():
            shutil.rmtree(unfinished)
        unfinished.mkdir(mode=0o700)
        self._account.take_over(unfinished)
        with self._lent_password() as password_file:
            run_to_end(
                self._initdb(unfinished, password_file),
                account=self._account,
                inherited_lock=server_lock,
                environment=clean_environment(),
            )
        unfinished.rename(self._folder.data)

    def _initdb(self, data: Path, password_file: Path) -> Sequence[str]:
        # "builtin" needs no locale of the operating system and sorts the same everywhere
        builtin = self._binaries.major >= BUILTIN_LOCALE_SINCE
        locale = ["--locale-provider=builtin", "--builtin-locale=C.UTF-8"] if builtin else []
        quick = ["--no-sync"] if self._settings.get("fsync") == "off" else []
        return [
            self._binaries.program("initdb"),
            f"--pgdata={data}",
            f"--username={self.user}",
            f"--pwfile={password_file}",
            "--auth=scram-sha-256",
            "--encoding=UTF8",
            "--locale=C",
            *locale,
            "--data-checksums",
            "--no-instructions",
            *quick,
        ]

    @contextmanager
    def _lent_password(self) -> Iterator[Path]:
        """Yield a password file that the account can read; ours stays closed to others."""
        if self._account.uid is None:
            yield self._folder.password_file
            return
        with tempfile.NamedTemporaryFile("w") as copy:
            copy.write(self._folder.password)
            copy.flush()
            self._account.take_over(Path(copy.name))
            yield Path(copy.name)

    def _command(self, port: int) -> Sequence[str]:
        own = {"listen_addresses": "127.0.0.1", "port": str(port)}
        own["unix_socket_directories"] = ""  # no socket: no limit on the length of our path, no file that others see
        settings = [f"--{name}={value}" for name, value in {**self._settings, **own}.items()]
        return [self._binaries.program("postgres"), "-D", str(self._folder.data), *settings]

    def _environment(self) -> dict[str, str]:
        """Tell the new server which recorded process is certainly not another server.

        PostgreSQL refuses to start while the number in `postmaster.pid` exists, even as a zombie that nobody
        collects, or as a program that got the number later. The one way to say "not that one", short of
        removing the file and with it the check for left-over backends, is the variable pg_ctl uses for its own number.
        """
        environment = clean_environment()
        pid = self._recorded_pid()
        if pid is not None and not self._may_be_ours(pid):
            environment["PG_GRANDPARENT_PID"] = str(pid)
        return environment

    def _is_ready(self) -> bool:
        try:
            lines = self._pid_file.read_text().splitlines()
        except FileNotFoundError:
            return False
        # the eighth line is the status
        return len(lines) > 7 and lines[7].strip() == "ready" and self._folder.is_listening()

    def _after_start(self) -> None:
        """Create our database, which also proves that the password works."""
        environment = clean_environment() | {"PGPASSWORD": self._folder.password, "PGCONNECT_TIMEOUT": "10"}
        place = ["--host=127.0.0.1", f"--port={self.port}", f"--username={self.user}", "--dbname=postgres"]
        options = ["--no-psqlrc", "--no-password", "--quiet", "--set=ON_ERROR_STOP=1", f"--set=name={self.database}"]
        asked = subprocess.run(
            [self._binaries.program("psql"), *options, *place],
            input=_CREATE_DATABASE,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if asked.returncode:
            raise ServerUnavailable(
                f"PostgreSQL in {self.home} runs, but database {self.database!r} could not be ensured as user "
                f"{self.user!r}: {asked.stderr.strip()}"
            )
