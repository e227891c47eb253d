"""heeler's own plugins under Java's names have the keys that Java's have (needs the entry points: heeler installed)."""

from __future__ import annotations

import pytest

from spark_tasks.plugins import Kind, Plugins
from spark_tasks.validation import plugin_config
from tests.golden.validate import cases

ANSWERS = cases.load()

PLUGINS = Plugins()
JAVA = "org.apache.kafka."


@pytest.mark.parametrize("name", [
    "FileStreamSource", "org.apache.kafka.connect.file.FileStreamSinkConnector",
    "org.apache.kafka.connect.json.JsonConverter", "StringConverter",
    "org.apache.kafka.connect.storage.SimpleHeaderConverter",
])
def test_configuration_keys_equal_javas(name):
    ours = [{k: v for k, v in key.items() if k != "documentation"} for key in plugin_config(PLUGINS, name)]
    assert ours == ANSWERS[f"config {name}"]["body"]


@pytest.mark.parametrize("name", ["FileStreamSource", "JsonConverter", "StringConverter"])
def test_every_key_is_documented(name):
    assert [key["name"] for key in plugin_config(PLUGINS, name) if not key["documentation"]] == []


@pytest.mark.parametrize("kind", [k for k in Kind if k is not Kind.CONFIG_PROVIDER])
def test_java_names_are_real(kind):
    javas = {p["class"] for p in ANSWERS["plugins"]["body"]}
    ours = {name for name in PLUGINS.names(kind) if name.startswith(JAVA)}
    assert ours <= javas


def test_everything_that_is_published_can_be_imported():
    for kind in Kind:
        assert {p.class_name for p in PLUGINS.of_kind(kind)} == set(PLUGINS.names(kind))
