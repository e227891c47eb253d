"""A PostgreSQL server for one test, from the system's packages (Debian's `postgresql`)."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from heeler.embedded_kafka.guard import GuardedProcess
from heeler.embedded_kafka.ports import free_port
from tests.rigs.support import wait_until

USER = "postgres"


class Postgres:
    """A server that accepts connections of USER with any password; logical replication is enabled."""

    def __init__(self, port: int, programs: Path) -> None:
        self.port = port
        self._psql = [str(programs / "psql"), "-h", "127.0.0.1", "-p", str(port), "-U", USER, "-qAt",
                      "-v", "ON_ERROR_STOP=1"]

    def sql(self, text: str) -> list[str]:
        """The rows of a query's result, with bars between columns."""
        done = subprocess.run([*self._psql, "-c", text], capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()


@contextmanager
def running_postgres() -> Iterator[Postgres]:
    """A running server; at the end, it and all its data are removed."""
    programs = max(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
    folder, port = Path(tempfile.mkdtemp(prefix="heeler-postgres-")), free_port()
    as_user = []
    if os.geteuid() == 0:  # PostgreSQL does not run as root
        account = pwd.getpwnam(USER)
        os.chown(folder, account.pw_uid, account.pw_gid)
        folder.parent.chmod(folder.parent.stat().st_mode | 0o711)  # the tests' own folder of temporary files
        as_user = ["setpriv", f"--reuid={USER}", f"--regid={account.pw_gid}", "--clear-groups"]
    try:
        subprocess.run([*as_user, programs / "initdb", "-D", folder / "data", "-U", USER, "-A", "trust", "-N"],
                       capture_output=True, check=True, timeout=120, cwd=folder)
        settings = {"port": port, "listen_addresses": "127.0.0.1", "unix_socket_directories": "",
                    "wal_level": "logical", "fsync": "off",
                    "dynamic_shared_memory_type": "mmap"}  # in its folder, which is removed
        options = [part for key, value in settings.items() for part in ("-c", f"{key}={value}")]
        server = GuardedProcess([*as_user, str(programs / "postgres"), "-D", str(folder / "data"), *options],
                                folder / "log")
        try:
            postgres = Postgres(port, programs)
            wait_until(lambda: postgres.sql("select 1") == ["1"], 60, "PostgreSQL")
            yield postgres
        finally:
            server.close(grace=2)
    finally:
        wait_until(lambda: shutil.rmtree(folder, ignore_errors=True) or not folder.exists(), 20, f"the end of {folder}")
