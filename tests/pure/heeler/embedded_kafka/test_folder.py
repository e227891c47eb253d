"""Which folders the embedded broker accepts, and the errors for others."""

from __future__ import annotations

import json

import pytest

from heeler.embedded_kafka.folder import FEATURES, BrokerFolder
from heeler.errors import SetupError


def opened(path):
    folder = BrokerFolder.open(path, "cluster-1")
    folder.release()
    return folder


def test_a_new_folder_is_created_and_reused_with_its_cluster(tmp_path):
    assert opened(tmp_path / "a" / "b").cluster_id == "cluster-1"
    again = BrokerFolder.open(tmp_path / "a" / "b", "cluster-2")
    assert again.cluster_id == "cluster-1"
    assert not again.is_formatted
    with pytest.raises(SetupError, match="in use by another heeler broker"):
        opened(again.path)
    again.release()
    opened(again.path)


def test_other_folders_are_left_alone(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(SetupError, match=r"contains other files \(notes\.txt"):
        opened(tmp_path)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "meta.properties").write_text("")
    with pytest.raises(SetupError, match="formatted by another Kafka cluster"):
        opened(tmp_path)
    assert sorted(x.name for x in tmp_path.iterdir()) == ["data", "notes.txt"]


def test_a_folder_that_another_cluster_formatted(tmp_path):
    folder = opened(tmp_path)
    folder.kafka_dir.mkdir()
    (folder.kafka_dir / "meta.properties").write_text("version=1\ncluster.id=other\nnode.id=1\n")
    with pytest.raises(SetupError, match=r"formatted by another cluster \(other, node 1; this one is cluster-1"):
        opened(tmp_path)


def test_a_folder_of_a_newer_kafka(tmp_path):
    (tmp_path / "heeler-broker.json").write_text(json.dumps({"cluster.id": "c", "kafka.version": "99.0.0"}))
    with pytest.raises(SetupError, match=r"written by Kafka 99\.0\.0, newer than"):
        opened(tmp_path)


def test_a_damaged_marker(tmp_path):
    (tmp_path / "heeler-broker.json").write_text("{}")
    with pytest.raises(SetupError, match="is damaged"):
        opened(tmp_path)


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(SetupError, match="Cannot write to the data folder"):
        opened(tmp_path / "file" / "data")


@pytest.mark.parametrize(
    ("said", "meaning"),
    [
        ("java.net.BindException: Address already in use", "took the broker's port"),
        ("java.io.IOException: No space left on device", "is full"),
        ("RuntimeException: Invalid cluster.id in: x. Expected a, but read b", "formatted for another cluster"),
        ("UnsupportedVersionException: metadata.version 99 is not supported", "written by a newer Kafka"),
        ("INFO x\nERROR Exiting: kaboom\n\tat y", "Kafka failed to start: ERROR Exiting: kaboom"),
        ("ERROR Exiting due to fatal exception\na.BadException: kaboom\n\tat y", "start: a.BadException: kaboom"),
        ("", "there is no output"),
    ],
)
def test_the_reason_for_a_failed_start_is_explained(tmp_path, said, meaning):
    assert meaning in opened(tmp_path).explain_failure(said)


def test_backslashes_are_escaped_in_the_properties_file(tmp_path):
    file = opened(tmp_path).write_config({"log.dirs": "C:\\x", "a": "b=c"})
    assert file.read_text() == "log.dirs=C:\\\\x\na=b=c\n"


def test_a_folder_is_formatted_like_another_one(tmp_path):
    tool, kept = opened(tmp_path / "tool"), tmp_path / "kept"
    tool.kafka_dir.mkdir()
    (tool.kafka_dir / FEATURES).write_bytes(b"features")
    tool.keep_features(kept)
    folder = opened(tmp_path / "own")
    folder.format_like(kept)
    assert (folder.kafka_dir / FEATURES).read_bytes() == b"features"
    assert folder.is_formatted
    assert opened(folder.path).cluster_id == "cluster-1"
    assert sorted(x.name for x in tmp_path.iterdir()) == ["kept", "own", "tool"]
