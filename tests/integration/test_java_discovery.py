"""plugin.discovery with real jars in a real host: a folder in which one jar has a manifest, and one has none."""

from __future__ import annotations

import shutil
import zipfile

import pytest

from heeler.java_host.manifests import NAMES_PLUGINS
from heeler.java_host.runtime import JavaRuntime
from spark_tasks.errors import ConfigError
from spark_tasks.plugins import Kind, Plugins
from tests.rigs.java_connectors import MODE
from tests.rigs.java_jars import plugin_folder
from tests.rigs.java_settings import java_settings

pytestmark = pytest.mark.integration

JSON = "org.apache.kafka.connect.json.JsonConverter"
SMALL = {"java.plugins.jvm.options": "-Xmx256M -XX:TieredStopAtLevel=1"}


@pytest.fixture
def folder(tmp_path):
    made = plugin_folder(tmp_path / "made")
    mixed = tmp_path / "path" / "mixed"
    shutil.copytree(made / "json", mixed)
    with zipfile.ZipFile(made / "mode" / "mode.jar") as theirs, zipfile.ZipFile(mixed / "mode.jar", "w") as archive:
        for name in set(theirs.namelist()) - NAMES_PLUGINS:
            archive.writestr(name, theirs.read(name))
    return str(tmp_path / "path")


def test_jars_without_manifests_are_found_as_kafka_connect_finds_them(folder, tmp_path, monkeypatch, caplog):
    caplog.set_level("INFO")
    monkeypatch.setattr("heeler.java_host.discovery.cache_root", lambda: tmp_path / "cache")
    for mode, started in (("hybrid_warn", True), ("HYBRID_WARN", False), ("only_scan", True), ("service_load", True)):
        runtime = JavaRuntime(java_settings({**SMALL, "plugin.discovery": mode}), [folder])
        try:
            assert ("The Java plugin host is running" in caplog.text) is started, mode
            caplog.clear()
            names = {found.name for found in runtime.found}
            assert {MODE, "heeler.tests.NoteSink"} & names == (
                set() if mode == "service_load" else {MODE, "heeler.tests.NoteSink"}), runtime.complaints
            assert [one.runtime for one in runtime.passed_over[Kind.CONVERTER, JSON]] == ["java"]
            if mode != "service_load":  # and used, also where only the cache knows of it
                plugins = Plugins((), others=runtime.found)
                assert plugins.find(Kind.CONNECTOR, MODE).cls.config_def.keys["mode"].default == "count"
        finally:
            runtime.close()
    with pytest.raises(ConfigError, match=rf"plugin\.discovery is hybrid_fail, and these .* {MODE} in {folder}/mixed"):
        JavaRuntime(java_settings({**SMALL, "plugin.discovery": "hybrid_fail"}), [folder])
