"""Plugins of a real worker: the modules that they see, also on executors, and what is never imported."""

from __future__ import annotations

import json

import pytest

from heeler.cli.client.rest_client import RestError
from tests.rigs.workers import JSON, PLUGINS

pytestmark = pytest.mark.integration

OWN = {"value.converter": JSON, "value.converter.schemas.enable": "false"}


def test_each_plugin_folder_has_modules_of_its_own(rig, topic_name):
    """Both folders have a utils.py, and a storage.py, which is also the name of a package of heeler."""
    one, other = f"{topic_name}-one", f"{topic_name}-other"
    marked = {"transforms": "mark", "transforms.mark.type": "MarkOne"}
    rig.create(one, {"connector.class": "PiecesOneSource", "topic": one, **marked, **OWN})
    rig.create(other, {"connector.class": "PiecesOther", "topic": other, **OWN})
    for topic, who, mark in ((one, "one", "; kept by one"), (other, "other", "")):
        rig.wait_records(topic, 3)
        found = sorted(json.loads(value)["value"] for value in rig.kafka.values(topic))
        assert found == [f"{who} {n}, kept by {who}{mark}" for n in range(3)]
    shown = {p["class"] for p in rig.call("GET", "/connector-plugins")}
    assert {"pieces_one.PiecesOneSourceConnector", "pieces_other.PiecesOther"} <= shown


@pytest.mark.parametrize(("name", "message"), [
    ("BadDefaultSource", "the definition of configuration n is wrong: Invalid value soon for configuration n: "),
    ("BadSchema", "unknown type strin"),
])
def test_a_mistake_in_a_plugin_is_reported_and_hides_no_other_plugin(rig, topic_name, name, message):
    config = {"connector.class": name, "topic": "t"}
    refused = rig.refused("POST", "/connectors", {"name": topic_name, "config": config})
    assert refused.status == 400
    assert message in str(refused)
    shown = {p["class"] for p in rig.call("GET", "/connector-plugins")}
    assert "mistakes.Neighbor" in shown


THIS = "Beautiful is better than ugly"  # what Python's module `this` prints when it is imported


@pytest.mark.parametrize("key", ["connector.class", "transforms.x.type", "predicates.x.type", "value.converter",
                                 "header.converter", "format"])
def test_modules_named_in_requests_are_not_imported(rig, topic_name, key):
    config = {"name": topic_name, "connector.class": "pyspark-source", "topic": "t", "format": "countdown",
              "transforms": "x", "predicates": "x"}
    for named in ("this.Anything", "this:Anything"):
        asked = {**config, key: named}
        with pytest.raises(RestError) as refused:
            rig.call("POST", "/connectors", {"name": topic_name, "config": asked})
        assert refused.value.status == 400
        with pytest.raises(RestError):
            rig.call("PUT", f"/connector-plugins/{named}/config/validate", {**asked, "connector.class": named})
        with pytest.raises(RestError):
            rig.call("GET", f"/connector-plugins/{named}/config")
    assert THIS not in rig.process.log.read_text(errors="replace")


@pytest.mark.parametrize(("sink", "key"), [("FileStreamSink", "file"), ("parquet", "path"), ("verify", "path")])
def test_sinks_may_not_write_into_plugin_folders(rig, topic_name, tmp_path, sink, key):
    """A file written there would be executed at the next start of a worker."""
    (tmp_path / "link").symlink_to(PLUGINS)
    config = {"connector.class": sink, "topics": topic_name, key: str(tmp_path / "link/evil.py")}
    error = rig.refused("POST", "/connectors", {"name": topic_name, "config": config})
    assert (error.status, "from where the worker loads plugins" in str(error)) == (400, True)
