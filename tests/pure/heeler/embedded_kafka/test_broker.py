"""The parts of an embedded broker that need no Kafka; integration/test_broker.py starts one."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from heeler.embedded_kafka.broker import EmbeddedBroker


def test_a_cluster_id_never_begins_with_a_dash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kafka's tool that formats a folder would take it for an option."""
    drawn = iter([b"\xf8" + bytes(15), b"\xfb" + bytes(15), b"\x00\xf8" + bytes(14)])
    monkeypatch.setattr(uuid, "uuid4", lambda: uuid.UUID(bytes=next(drawn)))
    folder = EmbeddedBroker(data_dir=tmp_path / "kafka").open_folder()
    try:
        assert folder.cluster_id == "APgAAAAAAAAAAAAAAAAAAA"
    finally:
        folder.release()
