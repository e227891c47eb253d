"""Where Java plugins are discovered, when the host does it, and which of two plugins with the same name is used."""

from __future__ import annotations

import logging
import struct
import threading
import zipfile
from pathlib import Path

import pytest

from heeler.java_host import discovery
from heeler.java_host.class_files import plugin_classes
from heeler.java_host.discovery import Discovery, look, plugin_locations
from heeler.java_host.manifests import PROVIDERS
from heeler.java_host.offset_texts import as_texts, from_texts
from heeler.java_host.runtime import JavaRuntime
from rest.wire.responses import plugin_info
from spark_tasks.errors import ConfigError, ConnectError, DataError
from spark_tasks.plugins import Kind, PassedOver, PluginNotFoundError, Plugins
from tests.rigs.java_settings import java_settings
from tests.rigs.support import no_thread

FILE_SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"
FILE_PROVIDER = "org.apache.kafka.common.config.provider.FileConfigProvider"
JSON = "org.apache.kafka.connect.json.JsonConverter"


SOURCE = "org/apache/kafka/connect/source/SourceConnector"
ABSTRACT = 0x0400
LIKE_JAVA = "hybrid_warn"


def class_file(name, *parents, flags=1):
    """The header of a class; the first of its parents is its superclass, the others are interfaces."""
    names = [name, *parents]
    constants = b"".join(b"\1" + struct.pack(">H", len(one)) + one.encode() + b"\7" + struct.pack(">H", 2 * n + 1)
                         for n, one in enumerate(names)) + b"\5" + bytes(8)
    indexes = [2 * n + 2 for n in range(len(names))]
    this, above, interfaces = indexes[0], indexes[1] if parents else 0, indexes[2:]
    return (b"\xca\xfe\xba\xbe" + struct.pack(">3H", 0, 61, 2 * len(names) + 3) + constants
            + struct.pack(f">4H{len(interfaces)}H", flags, this, above, len(interfaces), *interfaces))


NAMELESS = class_file("old/Source", SOURCE)


def jar(path, content="x", manifest="some.Plugin # one\n"):
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("some/Plugin.class" if isinstance(content, str) else "old/Source.class", content)
        if manifest:
            archive.writestr("META-INF/services/org.apache.kafka.connect.source.SourceConnector", manifest)
    return path


class Host:
    """Answers what the JVM would."""

    def __init__(self, plugins, error=None):
        self.plugins, self.error, self.asked = plugins, error, 0

    def ask(self, op):
        assert op == "plugins"
        self.asked += 1
        if self.error:
            raise self.error
        return {"plugins": self.plugins}

    def close(self):
        pass


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("HEELER_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def folder(tmp_path):
    jar(tmp_path / "path" / "my plugin" / "lib" / "one.jar")
    jar(tmp_path / "path" / "alone.jar", manifest="alone.Source")
    (tmp_path / "path" / "python").mkdir()
    (tmp_path / "path" / "python" / "mine.py").write_text("")
    return tmp_path / "path"


def listed(folder, name="some.Plugin", kind="source", place="my%20plugin/"):
    return {"class": name, "kind": kind, "version": "1", "location": f"file:{folder}/{place}"}


def alone_too(folder, *more):
    """What the host finds where all that the jars name can be loaded."""
    return [listed(folder), listed(folder, "alone.Source", place="alone.jar"), *more]


def test_folders_with_jars_and_single_jars_are_plugin_locations(folder):
    alone = str(folder / "alone.jar")
    found = plugin_locations([str(folder), str(folder / "missing")])
    assert [place.path.name for place in found] == ["alone.jar", "my plugin"]
    (place,) = plugin_locations([alone, f"{alone}x"])
    assert (str(place.path), place.jars) == (alone, (folder / "alone.jar",))
    assert Plugins(alone).complaints == []
    assert [c.rpartition(" ")[2] for c in Plugins(f"{alone}x").complaints] == ["folder"]


def test_jars_that_may_not_be_looked_at_are_left_out(folder, monkeypatch):
    """The worker did not start."""
    allowed = Path.is_file

    def guarded(path):
        if path.name != "alone.jar":
            raise PermissionError(13, "Permission denied", str(path))
        return allowed(path)

    monkeypatch.setattr(Path, "is_file", guarded)
    found = plugin_locations([str(folder), str(folder / "other.jar")])
    assert [place.path.name for place in found] == ["alone.jar"]


def test_plugins_that_cannot_be_loaded_are_reported_and_looked_up_again(folder):
    host = Host([listed(folder)])
    for asked in (1, 2):
        seen = Discovery([str(folder)], lambda _mode: host)
        assert len(seen.plugins()) == 1
        (complaint,) = seen.complaints
        assert complaint == (f"plugin.path: {folder}/alone.jar names plugins that cannot be loaded: alone.Source; "
                             "see the host's lines in the log (heeler.java)")
        assert host.asked == asked


def test_one_of_several_plugins_that_cannot_be_loaded_is_reported(folder):
    """Unless Kafka has the plugin itself: Kafka skips its own if a folder has one."""
    jar(folder / "my plugin" / "lib" / "one.jar", manifest=f"some.Plugin\nsome.Newer\n{JSON}")
    host = Host(alone_too(folder, {**listed(folder, JSON, "converter"), "location": "classpath"}))
    for asked in (1, 2):
        seen = Discovery([str(folder)], lambda _mode: host)
        assert [plugin.name for plugin in seen.plugins()] == ["alone.Source", "some.Plugin"]
        (complaint,) = seen.complaints
        assert "my plugin names plugins that cannot be loaded: some.Newer;" in complaint
        assert host.asked == asked


def test_the_host_discovers_each_content_once(folder):
    not_shown = listed(folder, "some.Extension", "rest_extension")
    host = Host(alone_too(folder, not_shown, {**listed(folder), "location": "classpath"}))
    for _ in range(2):
        _, found = Discovery([str(folder)], lambda _mode: host).plugins()
        assert (found.name, found.type, found.location) == ("some.Plugin", "source", str(folder / "my plugin"))
    assert host.asked == 1
    jar(folder / "my plugin" / "lib" / "one.jar", "y")
    assert len(Discovery([str(folder)], lambda _mode: host).plugins()) == 2
    assert host.asked == 2


def mode(folder, plugins=(), discovery=LIKE_JAVA):
    """How the host has to look, before and after it was asked."""
    seen = Discovery([str(folder)], lambda _look: Host(list(plugins)), discovery)
    before = seen.host_path(folder.with_name("host"))
    seen.plugins()
    return before, seen


def test_folders_without_manifests_are_inspected_once(folder, tmp_path):
    (tmp_path / "host").mkdir()
    assert mode(folder)[0] == (str(folder), "service_load")
    driver = jar(folder / "driver" / "driver.jar", manifest=None)
    assert mode(folder)[0] == (str(folder), "service_load")
    old = jar(folder / "old" / "old.jar", NAMELESS, manifest=None)
    there = alone_too(folder, listed(folder, "old.Source", place="old/"), listed(folder, "old.Sink", "sink", "old/"))
    before, seen = mode(folder, there)
    assert before == (str(folder), "hybrid_warn")
    links, how = seen.host_path(tmp_path / "host")
    assert (links, how) == (str(tmp_path / "host" / "plugins"), "service_load")
    found = {path.name: path for path in (tmp_path / "host" / "plugins").iterdir()}
    assert {name: path.resolve() for name, path in found.items() if path.is_symlink()} == {
        "0-alone.jar": folder / "alone.jar", "1-driver": driver.parent, "2-my plugin": folder / "my plugin"}
    assert (found["3-old"] / "0-old.jar").resolve() == old
    with zipfile.ZipFile(found["3-old"] / "manifests.jar") as manifests:
        assert {name.rpartition(".")[2]: manifests.read(name) for name in manifests.namelist()} == {
            "SourceConnector": b"old.Source\n", "SinkConnector": b"old.Sink\n"}


def test_jars_without_manifests_beside_one_that_has_one(folder, tmp_path):
    """Connectors built before Kafka 3.6 are packaged like this with a newer converter."""
    old = jar(folder / "my plugin" / "old.jar", NAMELESS, manifest=None)
    before, seen = mode(folder, alone_too(folder, listed(folder, "old.Source")))
    assert before == (str(folder), LIKE_JAVA)
    assert [plugin.name for plugin in seen.plugins()] == ["alone.Source", "some.Plugin", "old.Source"]
    (tmp_path / "host").mkdir()
    links, how = seen.host_path(tmp_path / "host")
    assert how == "service_load"
    (linked,) = Path(links).glob("*-my plugin")
    assert old in [path.resolve() for path in linked.iterdir()]
    with zipfile.ZipFile(linked / "manifests.jar") as manifests:
        assert manifests.read("META-INF/services/org.apache.kafka.connect.source.SourceConnector") == b"old.Source\n"


@pytest.mark.parametrize(("discovery", "before", "found"), [
    ("service_load", "service_load", ["alone.Source", "some.Plugin"]),
    ("hybrid_warn", "hybrid_warn", ["alone.Source", "some.Plugin", "some.Nameless"]),
    ("only_scan", "hybrid_warn", ["alone.Source", "some.Plugin", "some.Nameless"]),
    ("hybrid_fail", "hybrid_warn", None),
])
def test_plugin_discovery_has_kafka_connects_modes(folder, tmp_path, discovery, before, found):
    """The plugin is not named in its jar's manifest."""
    jar(folder / "my plugin" / "lib" / "one.jar", class_file("some/Nameless", "java/lang/Object", "x/Y", SOURCE))
    nameless = [listed(folder, "some.Nameless")] if before == "hybrid_warn" else []
    for how in (before, "service_load"):  # once its content is known, and the manifest that is missing is made
        seen = Discovery([str(folder)], lambda _look: Host(alone_too(folder, *nameless)), discovery)
        (own := tmp_path / how / discovery).mkdir(parents=True, exist_ok=True)
        assert seen.host_path(own)[1] == how
        if found is not None:
            assert [plugin.name for plugin in seen.plugins()] == found
        else:
            with pytest.raises(ConfigError, match=rf"no manifest: some\.Nameless in {folder}/my plugin\. Add the"):
                seen.plugins()


def test_plugin_classes_are_recognized_across_jars(tmp_path):
    """Also if their ancestors are in another jar. Base classes and files that only look like classes are ignored."""
    api = "org/apache/kafka/connect/"
    first, second = tmp_path / "first.jar", tmp_path / "second.jar"

    def put(archive, name, *parents, flags=1):
        archive.writestr(f"{name}.class", class_file(name, *parents, flags=flags))

    with zipfile.ZipFile(first, "w") as archive:
        put(archive, "acme/Base", SOURCE, flags=ABSTRACT)
        put(archive, "acme/Loop", "acme/Loop2")
        put(archive, "acme/Loop2", "acme/Loop")
        put(archive, "acme/Root")
        put(archive, "acme/Task", f"{api}source/SourceTask")
        put(archive, "acme/Cast", "java/lang/Object", f"{api}transforms/Transformation")
        put(archive, "META-INF/versions/21/acme/Real", SOURCE)
        archive.writestr("acme/Cut.class", class_file("acme/Cut", SOURCE)[:-1])
        archive.writestr("acme/None.class", b"\xca\xfe")
    with zipfile.ZipFile(second, "w") as archive:
        put(archive, "b/Real$Value", "acme/Base")
        put(archive, "b/Api", "java/lang/Object", f"{api}storage/Converter", flags=0x0601)
    jar(tmp_path / "driver.jar", class_file("driver/Real", "acme/Base"))
    (tmp_path / "broken.jar").write_bytes(b"PK no jar")
    jars = [first, second, tmp_path / "driver.jar", tmp_path / "broken.jar", tmp_path / "none.jar"]
    assert plugin_classes(jars) == {"acme.Cast", "b.Real$Value"}
    assert plugin_classes([second]) == set()


def test_service_load_uses_only_manifests(folder):
    jar(folder / "old" / "old.jar", NAMELESS, manifest=None)
    host = Host(alone_too(folder))
    seen = Discovery([str(folder)], lambda _look: host, "service_load")
    assert seen.host_path(folder) == (str(folder), "service_load")
    assert len(seen.plugins()) == 2
    jar(folder / "other" / "old.jar", NAMELESS, manifest=None)
    assert len(Discovery([str(folder)], lambda _look: host, "service_load").plugins()) == 2
    assert host.asked == 1


def test_config_providers_are_found_only_by_their_manifests(folder, tmp_path):
    """A jar with providers alone is not searched class by class; one that also has connectors without manifests is."""
    provider = {**listed(folder, "some.Vault", "configprovider"), "location": f"file:{folder}/vault.jar"}
    vault = jar(folder / "vault.jar", manifest=None)
    with zipfile.ZipFile(vault, "a") as archive:
        archive.writestr(PROVIDERS, "some.Vault")
    before, seen = mode(folder, alone_too(folder, provider))
    assert before == (str(folder), "service_load")
    assert [(p.name, p.kind) for p in seen.plugins()][2:] == [("some.Vault", Kind.CONFIG_PROVIDER)]
    assert mode(folder)[0] == (str(folder), "service_load"), "also once it is known"
    with zipfile.ZipFile(vault, "a") as archive:
        archive.writestr("old/Source.class", NAMELESS)
    both = alone_too(folder, provider, {**provider, "class": "old.Source", "kind": "source"})
    before, seen = mode(folder, both)
    assert before == (str(folder), "hybrid_warn")
    assert [p.name for p in seen.plugins()][2:] == ["some.Vault", "old.Source"]
    (tmp_path / "host").mkdir()
    links, _ = seen.host_path(tmp_path / "host")
    with zipfile.ZipFile(next(Path(links).glob("*-vault/manifests.jar"))) as manifests:
        assert [name.rpartition(".")[2] for name in manifests.namelist()] == ["SourceConnector"], "its own has Vault"


def test_a_new_folder_is_discovered_beside_a_known_one_without_manifests(folder, tmp_path):
    """The host gets links to the folders, and reports the paths of the links."""
    old = jar(folder / "old" / "old.jar", NAMELESS, manifest=None)
    there = alone_too(folder, listed(folder, "old.Source", place="old/"))
    assert len(mode(folder, there)[1].plugins()) == 3
    new = jar(folder / "new" / "new.jar", manifest="new.Source")
    host = Host([])
    seen = Discovery([str(folder)], lambda _look: host)
    (tmp_path / "host").mkdir()
    links = Path(seen.host_path(tmp_path / "host")[0])
    (link,) = links.glob("*-new")
    host.plugins = [{**listed(folder, "new.Source"), "location": f"file:{link}/"}]
    found = {plugin.name: plugin.location for plugin in seen.plugins()}
    assert found == {"some.Plugin": str(folder / "my plugin"), "old.Source": str(old.parent),
                     "alone.Source": str(folder / "alone.jar"), "new.Source": str(new.parent)}
    assert seen.complaints == []


def test_jars_that_have_no_plugins_start_no_host(tmp_path):
    jar(tmp_path / "driver" / "driver.jar", manifest=None)
    (tmp_path / "broken.jar").write_bytes(b"PK no jar")
    host = Host([])
    assert Discovery([str(tmp_path)], lambda _mode: host).plugins() == []
    assert host.asked == 0


def test_a_broken_jar_is_reported_and_hides_nothing(folder):
    (folder / "broken.jar").write_bytes(b"PK no jar")
    seen = Discovery([str(folder)], lambda _mode: Host(alone_too(folder)))
    assert len(seen.plugins()) == 2
    assert seen.complaints[0].startswith(f"plugin.path: could not read {folder / 'broken.jar'}: ")
    (place,) = (p for p in plugin_locations([str(folder)]) if p.path.name == "broken.jar")
    assert look(place, lambda _: None) == look(place, lambda _: None)


def test_a_host_that_cannot_be_started_is_reported_and_retried(folder):
    host = Host(alone_too(folder), ConnectError("no Java"))
    seen = Discovery([str(folder)], lambda _mode: host)
    assert seen.plugins() == []
    assert seen.complaints == ["Could not use the Java plugins of plugin.path: no Java"]
    host.error = None
    assert len(Discovery([str(folder)], lambda _mode: host).plugins()) == 2


@pytest.mark.parametrize(("prefer", "taken", "passed_over"), [
    ([], [], {(Kind.CONNECTOR, FILE_SOURCE): "java", (Kind.CONVERTER, JSON): "java",
              (Kind.CONFIG_PROVIDER, FILE_PROVIDER): "java"}),
    ([FILE_SOURCE, FILE_PROVIDER, JSON], [FILE_PROVIDER, FILE_SOURCE],
     {(Kind.CONNECTOR, FILE_SOURCE): "heeler", (Kind.CONVERTER, JSON): "java",
      (Kind.CONFIG_PROVIDER, FILE_PROVIDER): "heeler"}),
])
def test_heelers_own_plugin_is_used_unless_javas_is_preferred(folder, monkeypatch, prefer, taken, passed_over):
    """Connectors and config providers; the log and REST show which one is used."""
    host = Host([listed(folder), listed(folder, FILE_SOURCE), listed(folder, JSON, "converter"),
                 listed(folder, FILE_PROVIDER, "configprovider")])
    monkeypatch.setattr("heeler.java_host.host.JavaHost", lambda *_: host)
    runtime = JavaRuntime(java_settings({"java.plugins.prefer": ",".join(prefer)}), [str(folder)])
    assert sorted(found.name for found in runtime.found) == [*taken, "some.Plugin"]
    assert {which: one.runtime for which, (one,) in runtime.passed_over.items()} == passed_over
    assert runtime.passed_over[Kind.CONVERTER, JSON] == [PassedOver("java", "1", str(folder / "my plugin"))]
    plugins = Plugins((), passed_over=runtime.passed_over)
    (shown,) = (info for info in plugins.of_kind(Kind.CONVERTER) if info.class_name == JSON)
    assert plugin_info(shown) == {
        "class": JSON, "type": "converter", "version": "4.3.1", "runtime": "heeler",
        "passed_over": [{"runtime": "java", "version": "1", "location": str(folder / "my plugin")}]}
    (alone,) = (info for info in plugins.of_kind(Kind.CONVERTER) if info.class_name.endswith(".StringConverter"))
    assert set(plugin_info(alone)) == {"class", "type", "version"}


def test_a_level_for_which_no_thread_starts_is_logged(folder, monkeypatch, caplog):
    """The herder's thread sets it; an error would end the worker."""
    host = Host([listed(folder)])
    host.set_level = None
    monkeypatch.setattr("heeler.java_host.host.JavaHost", lambda *_: host)
    runtime = JavaRuntime(java_settings({}), [str(folder)])
    monkeypatch.setattr(threading.Thread, "start", no_thread)
    runtime.set_level("org.example", logging.DEBUG)
    assert "Java plugins do not get the level of logger org.example: can't start new thread" in caplog.text


@pytest.mark.parametrize("error", [None, "no Java"])
def test_a_missing_preferred_plugin_is_not_replaced(folder, monkeypatch, error):
    """Neither if no jar has it nor if the host cannot look it up."""
    host = Host([listed(folder)])
    host.error = error and ConnectError(error)
    monkeypatch.setattr("heeler.java_host.host.JavaHost", lambda *_: host)
    runtime = JavaRuntime(
        java_settings({"java.plugins.prefer": f"{FILE_SOURCE},{FILE_PROVIDER},{JSON}"}), [str(folder)])
    plugins = Plugins((), others=runtime.found, complaints=runtime.complaints)
    for kind, name in ((Kind.CONNECTOR, FILE_SOURCE), (Kind.CONNECTOR, "FileStreamSource"),
                       (Kind.CONFIG_PROVIDER, FILE_PROVIDER)):
        with pytest.raises(PluginNotFoundError, match=r"java\.plugins\.prefer names it, but no jar") as refused:
            plugins.find(kind, name)
        assert (error or "") in str(refused.value)
    assert plugins.find(Kind.CONVERTER, JSON).cls.__module__.startswith("spark_tasks.")
    assert FILE_SOURCE not in [info.class_name for info in plugins.of_kind(Kind.CONNECTOR)]


def test_without_jars_there_is_no_host(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(discovery, "Discovery", None)
    runtime = JavaRuntime(java_settings({}), [str(folder / "python"), str(tmp_path / "missing")])
    assert (runtime.found, list(runtime.complaints)) == ({}, [])
    runtime.close()


def test_offsets_are_passed_as_the_texts_in_the_topic():
    texts = [('{"server":"a","n":9007199254740993}', '{"x":1.0E20,"y":0.1,"z":null,"s":"é\\"","b":true}')]
    assert as_texts(from_texts(texts)) == texts
    assert as_texts([({"a": 1}, None)]) == [('{"a":1}', "null")]
    assert from_texts([('{"a":1}', "null")]) == [({"a": 1}, None)]
    with pytest.raises(DataError, match="must be maps"):
        from_texts([("{}", "7")])
