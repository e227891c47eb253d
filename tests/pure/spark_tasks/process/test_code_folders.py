"""Connectors cannot write files into folders from which code is loaded."""

from __future__ import annotations

import os
import pickle
import sysconfig
from pathlib import Path

import pyarrow as pa
import pytest

import spark_tasks
from spark_tasks.connectors.file_stream.connectors import FileStreamSinkConnector
from spark_tasks.connectors.parquet.connector import ParquetSinkConnector
from spark_tasks.connectors.verify import VerifySinkConnector
from spark_tasks.errors import ConnectError
from spark_tasks.plugins import Plugins
from spark_tasks.process import code_folders

SINKS = [(FileStreamSinkConnector, "file"), (ParquetSinkConnector, "path"), (VerifySinkConnector, "path")]
ROW = pa.record_batch({"value": pa.array([{"stream": 0, "sequence": 0}]), "topic": ["t"], "partition": [0],
                       "offset": [0]})


@pytest.fixture(autouse=True)
def plugins(tmp_path, monkeypatch):
    monkeypatch.setattr(code_folders, "plugin_folders", {})
    folder = tmp_path / "plugins"
    folder.mkdir()
    (tmp_path / "link").symlink_to(folder)
    (tmp_path / "inner").symlink_to(folder / "new")
    Plugins(str(folder))
    return folder


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """The worker's plugin.path is a link."""
    monkeypatch.setattr(code_folders, "plugin_folders", {})
    Plugins(str(tmp_path / "link"))


@pytest.mark.parametrize("path", ["plugins/x", "plugins", "plugins/a/../x", "link/x.py", "inner", "b/../link"])
@pytest.mark.parametrize("by", ["plugins", "elsewhere"])
@pytest.mark.parametrize(("sink", "key"), SINKS)
def test_sinks_may_not_write_into_plugin_folders(tmp_path, sink, key, path, by, request):
    request.getfixturevalue(by)
    config = {"name": "n", "topics": "t", key: f" {tmp_path / path} "}  # sinks trim it
    [message] = sink.validate(config)[key]
    assert message.startswith(f"{tmp_path / path} is in {tmp_path}")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(ConnectError, match="connectors cannot write there"):  # however it came into the config topic
        written(sink, config)
    assert sorted(tmp_path.rglob("*")) == before


def written(sink, config):
    write(pickle.dumps(sink.data_source(config).writer(None, False)))


def write(pickled):
    writer = pickle.loads(pickled)
    writer.commit([writer.write(iter([ROW]))])


@pytest.mark.parametrize(("sink", "key"), SINKS)
def test_links_are_resolved_when_a_sink_writes(tmp_path, sink, key, plugins):
    """On an executor, which has not discovered plugins."""
    config = {"name": "n", "topics": "t", key: str(tmp_path / "later")}
    writer = pickle.dumps(sink.data_source(config).writer(None, False))
    if sink is FileStreamSinkConnector:
        (tmp_path / "later").unlink()
    (tmp_path / "later").symlink_to(plugins / "x")
    if sink is not VerifySinkConnector:  # it writes on the worker
        code_folders.plugin_folders.clear()
    with pytest.raises(ConnectError, match="connectors cannot write there"):
        write(writer)
    assert list(plugins.iterdir()) == []


@pytest.mark.parametrize("path", [
    sysconfig.get_path("purelib") + "/x", sysconfig.get_path("stdlib") + "/x.txt", sysconfig.get_path("scripts") + "/x",
    spark_tasks.__path__[0] + "/x", str(Path(spark_tasks.__path__[0]).parent / "new.py"),
    str(Path(spark_tasks.__path__[0]).parent / "new/a.pth"), "~/.cache/numba/x", "~/.cache/heeler/spark/x",
])
def test_sinks_may_not_write_into_other_code_folders(path, monkeypatch):
    for name in ("HEELER_CACHE", "XDG_CACHE_HOME", "NUMBA_CACHE_DIR"):
        monkeypatch.delenv(name, raising=False)
    code_folders.python_folders.cache_clear()
    assert FileStreamSinkConnector.validate({"file": str(Path(path).expanduser())}).keys() == {"file"}
    code_folders.python_folders.cache_clear()


@pytest.mark.parametrize(("sink", "key"), SINKS)
def test_sinks_may_write_into_all_other_folders(tmp_path, monkeypatch, sink, key):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plugins-not").mkdir()
    demo = Path(spark_tasks.__path__[0]).parent / "heeler-demo"
    for path in (tmp_path / "out", tmp_path / "plugins-not/out", "out2", demo):
        config = {"name": "n", "topics": "t", key: str(path)}
        assert sink.validate(config) == {}
    written(sink, {"name": "n", "topics": "t", key: str(tmp_path / "out")})
    assert (tmp_path / "out").exists()
    assert sink.validate({"name": "n"}) == {}


def test_a_link_to_plugins_that_changes_is_followed(tmp_path):
    """Administrators deploy new plugins so. Answers are cached, since every batch of a sink asks."""
    for name in ("v1", "v2"):
        (tmp_path / name).mkdir()
    link, file = tmp_path / "current", str(tmp_path / "v2" / "data.txt")
    link.symlink_to(tmp_path / "v1")
    assert code_folders.complaint(file, (str(link),)) is None
    link.unlink()
    link.symlink_to(tmp_path / "v2")
    assert "from where the worker loads plugins" in code_folders.complaint(file, (str(link),))


@pytest.mark.parametrize(
    "path", ["data/file", "data/new", "gone/file", "link/file", "link", "data/../link/.", "to-file"])
def test_the_real_path_of_a_file_is_that_of_python(tmp_path, path):
    here = tmp_path / "here"
    (here / "data").mkdir(parents=True)
    (here / "data" / "file").touch()
    (here / "link").symlink_to("data")
    (here / "to-file").symlink_to(here / "link" / "file")
    asked = f"{here}/{path}"
    assert code_folders.real_path(asked) == os.path.realpath(asked)
