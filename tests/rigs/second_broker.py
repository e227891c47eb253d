"""A second broker in the cluster of an EmbeddedBroker, for topics with two replicas."""

from __future__ import annotations

import tempfile
from pathlib import Path

import javaproperties

from heeler.embedded_kafka.broker import EmbeddedBroker
from heeler.embedded_kafka.folder import FEATURES, BrokerFolder


class SecondBroker(EmbeddedBroker):
    """A broker that joins the cluster of `first`, which is its only controller. `first` must run."""

    def __init__(self, first: EmbeddedBroker) -> None:
        super().__init__(heap_mb=256, quick=True)
        self._features = first.data_dir / "kafka" / FEATURES
        self._cluster_id = _properties(first.data_dir / "kafka" / "meta.properties")["cluster.id"]
        self._voters = _properties(first.data_dir / "server.properties")["controller.quorum.voters"]

    def open_folder(self) -> BrokerFolder:
        folder = BrokerFolder.open(Path(tempfile.mkdtemp(prefix="heeler-broker-")), self._cluster_id)
        folder.format_like(self._features, node_id=2)
        return folder

    def properties(self, folder: BrokerFolder, controller_port: int) -> dict[str, str]:
        return {
            **super().properties(folder, controller_port), "process.roles": "broker", "node.id": "2",
            "listeners": f"PLAINTEXT://{self.bootstrap_servers}", "controller.quorum.voters": self._voters,
        }  # fmt: skip


def _properties(file: Path) -> dict[str, str]:
    with file.open("rb") as text:
        return javaproperties.load(text)
