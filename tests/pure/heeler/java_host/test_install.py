"""What `heeler plugins install` installs, and where."""

from __future__ import annotations

import zipfile

import pytest
from click.testing import CliRunner

from heeler.cli.main import main
from heeler.errors import SetupError
from heeler.java_host import install as install_module
from heeler.java_host.host_classpath import RUNTIME
from heeler.java_host.install import Coordinates, install


@pytest.fixture
def registry(tmp_path, monkeypatch):
    """A cache in which everything is."""
    def make(jars, _progress):
        folder = tmp_path / jars.folder
        folder.mkdir(exist_ok=True)
        host = ("kafka-clients-4.3.1", "jackson-core-2.21.2", "jackson-databind-2.9", "connect-api-4.3.1",
                "connect-json-4.3.1", "jetty-util-12.0.34")
        plugin = ("kafka-clients-4.3.1", "jackson-core-2.9.9", "jackson-databind-2.10.1", "connect-api-4.1.1-rc2",
                  "connect-json-3.9.1", "jetty-util-9.4.57.v20241219", "mine-1.0", "driver-2", "plain")
        for name in host if jars is RUNTIME else plugin:
            with zipfile.ZipFile(folder / f"{name}.jar", "w") as archive:
                archive.writestr("a", "b")
                if name == "mine-1.0":
                    archive.writestr("META-INF/services/org.apache.kafka.connect.sink.SinkConnector",
                                     "# mine\norg.x.Sink # the one\n\n")
        return folder
    monkeypatch.setattr(install_module, "resolve", make)
    return make


def test_a_plugin_is_put_into_a_folder_of_its_own(registry, tmp_path):
    done = install(Coordinates.parse("org.x:mine:1.0"), tmp_path / "path", lambda _: None)
    found = sorted(f.name for f in done.folder.iterdir())
    assert found == ["driver-2.jar", "jackson-databind-2.10.1.jar", "jetty-util-9.4.57.v20241219.jar", "mine-1.0.jar",
                     "plain.jar"]
    assert [f.name for f in (tmp_path / "path").iterdir()] == ["mine-1.0"]
    assert (done.jars, done.plugins) == (5, ["org.x.Sink"])
    with pytest.raises(SetupError, match="already exists"):
        install(Coordinates.parse("org.x:mine:1.0"), tmp_path / "path", lambda _: None)


def test_additional_artifacts_are_installed_too(registry, tmp_path, monkeypatch):
    asked = []

    def resolve(jars, progress):
        asked.append(jars.modules)
        return registry(jars, progress)

    monkeypatch.setattr(install_module, "resolve", resolve)
    done = install(Coordinates.parse("org.x:mine:1.0"), tmp_path / "path", lambda _: None,
                   more=[Coordinates.parse("org.j:jackson-core:2.9.9")])
    assert asked[0] == (("org.x", "mine", "1.0"), ("org.j", "jackson-core", "2.9.9"))
    assert (done.folder / "jackson-core-2.9.9.jar").exists()  # though it is older than Kafka's: it was asked for


def test_a_damaged_jar_is_reported_and_nothing_is_installed(tmp_path, monkeypatch):
    def resolve(jars, _progress):
        folder = tmp_path / jars.folder
        folder.mkdir(exist_ok=True)
        with zipfile.ZipFile(folder / "mine-1.0.jar", "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("META-INF/services/org.apache.kafka.connect.sink.SinkConnector", "org.x.Sink\n" * 99)
        damaged = bytearray((folder / "mine-1.0.jar").read_bytes())
        at = damaged.index(b"SinkConnector") + len(b"SinkConnector")
        damaged[at : at + 4] = b"\xff" * 4
        (folder / "mine-1.0.jar").write_bytes(damaged)
        return folder

    monkeypatch.setattr(install_module, "resolve", resolve)
    with pytest.raises(SetupError, match=r"^mine-1\.0\.jar cannot be read"):
        install(Coordinates.parse("org.x:mine:1.0"), tmp_path / "path", lambda _: None)
    assert list((tmp_path / "path").iterdir()) == []


def test_a_folder_that_cannot_be_written_is_reported(registry, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(SetupError, match="Cannot write to"):
        install(Coordinates.parse("org.x:mine:1.0"), tmp_path / "file", lambda _: None)


@pytest.mark.parametrize("text", ["org.x:mine", "a:b:c:d", "a:b:", "a:../b:1", 'a:b:"1'])
def test_invalid_artifacts_are_refused(text, tmp_path):
    result = CliRunner().invoke(main, ("plugins", "install", text, "--plugin-path", str(tmp_path)))
    assert (result.exit_code, "expected GROUP:ARTIFACT:VERSION" in result.stderr) == (2, True)
    assert list(tmp_path.iterdir()) == []
