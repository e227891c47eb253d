"""Authentication between Spark's processes: settings by master, and files and sockets that only their owner can open.

A split has its connector's configuration, including passwords, and passes through Spark's memory. Every Spark process
serves that memory on a port; without a shared secret, anybody can read it.
"""

from __future__ import annotations

import os
import secrets
import uuid
from collections.abc import Mapping
from pathlib import Path

from spark_tasks.errors import ConfigError
from spark_tasks.process.private_files import open_private
from spark_tasks.spark.master import SparkMaster

AUTHENTICATE, SECRET = "spark.authenticate", "spark.authenticate.secret"
_CRYPTO, _SSL = "spark.network.crypto.enabled", "spark.ssl.rpc.enabled"
_SOCKETS, _SOCKET_FOLDER = "spark.python.unix.domain.socket.enabled", "spark.python.unix.domain.socket.dir"
_SUN_PATH = 103  # the maximum length of a Unix socket's path in bytes: 107 on Linux, 103 on macOS


def authenticates(settings: Mapping[str, str]) -> bool:
    """Returns whether Spark's processes authenticate each other: spark.authenticate is not false."""
    return settings.get(AUTHENTICATE, "true").strip().lower() != "false"


def authentication(settings: Mapping[str, str]) -> dict[str, str]:
    """Returns additional `spark.*` settings: a new secret for a local Spark, encryption for a cluster. (YARN and
    Kubernetes distribute a secret themselves.)

    Raises ConfigError for a standalone cluster without a secret, unless spark.authenticate is false.
    """
    if not authenticates(settings):
        return {}
    master = SparkMaster.of(settings)
    if master.is_local:
        return {AUTHENTICATE: "true", SECRET: secrets.token_hex(32)}
    if master.is_standalone and not settings.get(SECRET, "").strip():
        raise ConfigError(
            f'Missing required configuration "{SECRET}" for spark.master={master}: without it, anybody who can connect '
            "to Spark's ports can run code there and read the passwords of connectors. Set spark.authenticate=true and "
            f"{SECRET} to the same value here and for the cluster's master and workers (a config provider may provide "
            "it), or set spark.authenticate=false if nobody else has access to that network."
        )
    encrypted = settings.get(_SSL, "").strip().lower() == "true"
    return {AUTHENTICATE: "true", **({} if encrypted else {_CRYPTO: "true"})}


def python_sockets(settings: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Returns settings for the sockets between the JVM and the Python workers: Unix sockets in the private `folder`,
    which need no secret, or TCP with a secret on a cluster, or if the paths would be too long.
    """
    if _SOCKETS in settings:
        return {}
    place = settings.get(_SOCKET_FOLDER, str(folder))
    if not SparkMaster.of(settings).is_local or len(os.fsencode(place)) > _SUN_PATH - len(f"/.{uuid.uuid4()}.sock"):
        return {_SOCKETS: "false"}
    return {_SOCKETS: "true", _SOCKET_FOLDER: place}


def write_properties(settings: Mapping[str, str], file: Path) -> None:
    """Writes the settings to a new properties file that only this user can read."""
    import javaproperties  # noqa: PLC0415 - rarely needed

    with open_private(file, "x") as out:
        javaproperties.dump(settings, out, timestamp=False)
