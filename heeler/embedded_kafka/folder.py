"""The embedded broker's folder: its owner, whether it may be used, and explanations of failures."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import re
import shutil
import tempfile
import uuid
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO

from heeler.embedded_kafka.jars import KAFKA_VERSION
from heeler.errors import SetupError
from spark_tasks.process.private_files import open_private

FEATURES = "bootstrap.checkpoint"
"""Kafka's file with the features of a new cluster: the same for every cluster of one version of Kafka."""
_MARKER = "heeler-broker.json"
_TAIL_LINES = 15


class BrokerFolder:
    """A folder that heeler formatted, locked for as long as this process uses it."""

    def __init__(self, path: Path, cluster_id: str, lock: IO[str]) -> None:
        self.path = path
        self.cluster_id = cluster_id
        self.kafka_dir = path / "kafka"
        self.log_file = path / "broker.log"
        self._lock = lock

    @classmethod
    def open(cls, path: Path, new_cluster_id: str) -> BrokerFolder:
        """Opens an empty folder, or one that heeler formatted before. Raises SetupError for any other."""
        path = Path(os.path.expanduser(path)).absolute()  # noqa: PTH111 - Path's raises RuntimeError
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)  # other users must not read the topics
            with tempfile.TemporaryFile(dir=path):
                pass  # the folder may exist without being writable
            marker = path / _MARKER
            if not marker.exists():
                _require_empty(path)
                written = path / f"{_MARKER}.new"
                written.write_text(json.dumps({"cluster.id": new_cluster_id, "kafka.version": KAFKA_VERSION}))
                written.rename(marker)
            lock = marker.open()
        except OSError as error:
            raise SetupError(f"Cannot write to the data folder {path}: {error.strerror or error}") from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.close()
            raise SetupError(f"The data folder {path} is in use by another heeler broker.") from None
        try:
            return cls(path, _cluster_of(path, lock), lock)
        except BaseException:
            lock.close()
            raise

    @property
    def is_formatted(self) -> bool:
        """Whether Kafka has formatted the folder completely (it writes this file last)."""
        return (self.kafka_dir / "meta.properties").exists()

    def keep_features(self, kept: Path) -> None:
        """Keeps a copy of what Kafka's tool has written, for `format_like` of other folders."""
        with suppress(OSError), tempfile.TemporaryDirectory(prefix=".features-", dir=kept.parent) as work:
            Path(shutil.copy(self.kafka_dir / FEATURES, work)).rename(kept)

    def format_like(self, kept: Path, node_id: int = 1) -> None:
        """Formats the folder as Kafka's tool does, which takes a JVM a second of CPU time."""
        self.kafka_dir.mkdir(exist_ok=True)
        shutil.copy(kept, self.kafka_dir / FEATURES)
        directory_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        meta = {"version": "1", "cluster.id": self.cluster_id, "node.id": str(node_id), "directory.id": directory_id}
        (self.kafka_dir / "meta.properties").write_text("".join(f"{key}={value}\n" for key, value in meta.items()))

    def write_config(self, properties: Mapping[str, str]) -> Path:
        """Writes the broker's server.properties and returns its path."""
        file = self.path / "server.properties"
        escaped = (f"{key}={value}".replace("\\", "\\\\") for key, value in properties.items())
        with open_private(file, "w") as out:
            out.write("\n".join(escaped) + "\n")
        return file

    def release(self) -> None:
        """Unlocks the folder."""
        self._lock.close()

    def log_tail(self) -> str:
        """The last lines of the broker's output, without repetitions."""
        try:
            lines = self.log_file.read_text(errors="replace").splitlines()
        except OSError:
            return ""
        return "\n".join([*dict.fromkeys(lines)][-_TAIL_LINES:])

    def explain_failure(self, output: str) -> str:
        """An explanation, for the user, of why the broker ended during its start, from its output."""
        for pattern, meaning in _MEANINGS:
            if re.search(pattern, output, re.IGNORECASE):
                return meaning.format(path=self.path)
        telling = [x.strip() for x in output.splitlines() if re.search(r"exception|error|fatal", x, re.IGNORECASE)]
        telling.sort(key=lambda line: "Exception: " not in line)  # it says more than "Exiting due to an exception"
        kept = f" Its complete output is in {self.log_file}." if self.log_file.exists() else ""
        return f"Kafka failed to start: {(telling or output.splitlines() or ['there is no output'])[0]}.{kept}"


_MEANINGS = (
    (r"already in use", "Another program took the broker's port a moment ago; start again or choose another --port."),
    (
        r"(metadata\.version|feature|UnsupportedVersion).*(not support|unsupported|unknown|invalid|no metadata)",
        f"The data folder {{path}} was written by a newer Kafka than {KAFKA_VERSION}; choose another --data-dir.",
    ),
    (r"InconsistentClusterId|Invalid cluster\.id", "The data folder {path} was formatted for another cluster."),
    (r"no space left", "The disk with {path} is full."),
    (r"Could not reserve enough space|insufficient memory", "There is not enough memory for Kafka's Java process."),
)


def _require_empty(path: Path) -> None:
    entries = sorted(x.name for x in path.iterdir() if not x.name.startswith(f"{_MARKER}."))
    if "meta.properties" in entries or any((path / x / "meta.properties").exists() for x in entries):
        raise SetupError(
            f"The data folder {path} was formatted by another Kafka cluster; heeler does not use it. Choose an empty "
            "folder."
        )
    if entries:
        raise SetupError(f"The data folder {path} contains other files ({entries[0]}, …). Choose an empty folder.")


def _cluster_of(path: Path, marker: IO[str]) -> str:
    """The cluster id, checked against the one that Kafka wrote when it formatted the folder. Raises SetupError."""
    try:
        content = json.load(marker)
        cluster_id, version = str(content["cluster.id"]), str(content["kafka.version"])
    except (ValueError, KeyError, TypeError) as error:
        raise SetupError(f"{path / _MARKER} is damaged: {error!r}. Choose another data folder.") from error
    if _numbers(version) > _numbers(KAFKA_VERSION):
        raise SetupError(f"The data folder {path} was written by Kafka {version}, newer than this {KAFKA_VERSION}.")
    meta = path / "kafka" / "meta.properties"
    if meta.exists():
        properties = dict(line.split("=", 1) for line in meta.read_text().splitlines() if "=" in line)
        if properties.get("cluster.id") != cluster_id or properties.get("node.id") != "1":
            raise SetupError(
                f"The data folder {path} was formatted by another cluster ({properties.get('cluster.id')}, node "
                f"{properties.get('node.id')}; this one is {cluster_id}, node 1). Choose another folder."
            )
    return cluster_id


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(x) for x in re.findall(r"\d+", version)[:3])
