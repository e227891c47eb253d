# ruff: noqa: N802, ARG002 - the names and signatures are PySpark's
import pickle
import textwrap
import uuid
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.sql import Row
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceWriter,
    InputPartition,
    WriterCommitMessage,
)

from spark_tasks.connectors.pyspark.sink import PySparkSinkConnector
from spark_tasks.connectors.pyspark.source import PySparkSourceConnector
from spark_tasks.plugins import Kind, data_source_discovery, discovery
from spark_tasks.plugins.discovery import Found

HERE = __name__


@pytest.fixture(autouse=True)
def offered(monkeypatch):
    """This file's data sources, as if it lay in a folder of plugin.path."""
    monkeypatch.setattr(data_source_discovery, "in_folders", {})
    found = discovery.in_source(Path(__file__), Path(f"{HERE.replace('.', '/')}.py"), "here", print)
    counting = Found(f"{HERE}.Counting", Kind.DATA_SOURCE, f"{HERE}:Counting", "here", "counting")
    data_source_discovery.add([*found, counting])


class Counting(DataSource):
    def schema(self):
        return "id INT, name STRING"

    def streamReader(self, schema):
        return CountingReader(int(self.options["Most"]))


class CountingReader(DataSourceStreamReader):
    def __init__(self, most):
        self.most = most

    def initialOffset(self):
        return {"at": 0}

    def latestOffset(self):
        return {"at": self.most}

    def partitions(self, start, end):
        return [InputPartition((start["at"], end["at"]))]

    def read(self, partition):
        for i in range(*partition.value):
            yield (i, f"n{i}")


class Whole(DataSource):
    def schema(self):
        return "id INT"

    def reader(self, schema):
        return WholeReader()


class WholeReader(DataSourceReader):
    def read(self, partition):
        return iter([(1,), (2,)])


class Unsplit(Whole):
    def reader(self, schema):
        return UnsplitReader()


class UnsplitReader(DataSourceReader):
    def partitions(self):
        return []

    def read(self, partition):
        return iter([(partition.value,)])


class Parts(Whole):
    def reader(self, schema):
        return PartsReader()


class PartsReader(DataSourceReader):
    def partitions(self):
        return [InputPartition(i) for i in range(2)]

    def read(self, partition):
        return iter([(partition.value,)])


@dataclass
class Said(WriterCommitMessage):
    rows: list


class Keeping(DataSource):
    committed: list = []  # noqa: RUF012

    def writer(self, schema, replaces):  # Spark, too, passes arguments by position
        return (ByRow if self.options.get("by") == "row" else ByBatch)(schema)


class ByRow(DataSourceWriter):
    def __init__(self, schema):
        self.schema = schema

    def write(self, iterator):
        return Said([row.asDict() if isinstance(row, Row) else row for row in iterator])

    def commit(self, messages):
        Keeping.committed.append((self.schema.simpleString(), [row for m in messages for row in m.rows]))

    def abort(self, messages):
        Keeping.committed.append(("aborted", len(messages)))


class Staged(DataSource):
    """Its writers write to a place with a name that they make up."""

    places: dict = {}  # noqa: RUF012

    def writer(self, schema, overwrite):
        return StagedWriter()


class StagedWriter(ByRow):
    def __init__(self):
        self.place = uuid.uuid4().hex

    def write(self, iterator):
        Staged.places[self.place] = [row.asDict() for row in iterator]
        return Said([])

    def commit(self, messages):
        Keeping.committed.append((len(messages), Staged.places.pop(self.place)))

    def abort(self, messages):
        del Staged.places[self.place]


class ByBatch(ByRow, DataSourceArrowWriter):
    def write(self, iterator):
        return Said([row for batch in iterator for row in batch.to_pylist()])


def source(kind, **options):
    config = {"topic": "t", "format": f"{HERE}:{kind}", **{f"option.{k}": v for k, v in options.items()}}
    return PySparkSourceConnector.data_source(config)


def test_streaming_source_gets_its_options():
    made = source("Counting", most="3")
    assert isinstance(made, Counting)
    reader = made.streamReader(None)
    (part,) = reader.partitions(reader.initialOffset(), reader.latestOffset())
    assert list(reader.read(part)) == [(0, "n0"), (1, "n1"), (2, "n2")]


@pytest.mark.parametrize(("kind", "rows"), [
    ("Whole", [(1,), (2,)]), ("Unsplit", [(None,)]), ("Parts", [(0,), (1,)]),
])  # fmt: skip
def test_a_source_without_a_stream_is_read_once(kind, rows):
    made = source(kind)
    assert made.schema() == "id INT"
    reader = cloudpickle.loads(cloudpickle.dumps(made.streamReader(None)))
    start, end = reader.initialOffset(), reader.latestOffset()
    assert [
        row for part in reader.partitions(start, end) for row in reader.read(pickle.loads(pickle.dumps(part)))
    ] == rows
    assert reader.partitions(end, end) == []


def test_the_schema_can_be_given():
    config = {"topic": "t", "format": f"{HERE}.Counting", "schema": "x BIGINT", "option.most": "1"}
    assert PySparkSourceConnector.data_source(config).schema().simpleString() == "struct<x:bigint>"


def test_unknown_or_unsuitable_formats_are_reported():
    (error,) = PySparkSourceConnector.validate({"format": "cuonting"})["format"]
    assert error.startswith("Invalid value cuonting for configuration format: no data source has this name; did you "
                            "mean counting? available: ")
    assert "folders of plugin.path" in error
    assert "Spark's own formats, such as csv or jdbc, are not written in Python" in error
    assert "entry point in the group heeler.data_sources" in error
    assert "no data source has this name" in PySparkSinkConnector.validate({"format": "no.such.Thing"})["format"][0]
    assert PySparkSinkConnector.validate({"format": f"{HERE}:Keeping"}) == {}
    (error,) = PySparkSinkConnector.validate({"format": f"{HERE}:Whole"})["format"]
    assert error == f"Invalid value {HERE}:Whole for configuration format: it has no writer"
    (error,) = PySparkSourceConnector.validate({"format": f"{HERE}:Keeping"})["format"]
    assert error.endswith("it has no reader and no streamReader and no simpleStreamReader")
    assert [PySparkSourceConnector.validate({"format": f"{HERE}:{kind}"}) for kind in ("Whole", "Counting")] == [{}, {}]
    (error,) = PySparkSourceConnector.validate({"format": f"{HERE}:Whole", "schema": "id BIGIMT"})["schema"]
    assert "unknown type bigimt" in error


SAMPLE = """
    from pyspark.sql.datasource import DataSource
    {more}
    class {cls}(DataSource):
        @classmethod
        def name(cls):
            "Its name."
            return {name}
        def reader(self, schema): pass
"""


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A folder of installed packages, of which nothing is known yet."""
    monkeypatch.syspath_prepend(tmp_path)
    caches = data_source_discovery.installed, discovery.installed
    for cache in caches:
        cache.cache_clear()
    yield tmp_path
    for cache in caches:
        cache.cache_clear()


def sample(cls="Sample", name="'sample'", more=""):
    return textwrap.dedent(SAMPLE).format(cls=cls, name=name, more=more)


def install(site, package, summary, files, entry_points=""):
    for name, text in files.items():
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_text(text)
    info = site / f"{package.replace('-', '_')}-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1\nSummary: {summary}\n")
    (info / "RECORD").write_text("".join(f"{name},,\n" for name in files))
    (info / "entry_points.txt").write_text(entry_points)


def problem(name):
    return PySparkSourceConnector.validate({"format": name}).get("format", [""])[0]


def test_pyspark_packages_are_found_by_their_format_name(site):
    (site / "pyspark_sample.py").write_text(sample("DefaultSource"))
    assert not problem("sample")


def test_formats_of_installed_packages_are_found_under_any_package_name(site):
    ran = site / "ran"
    touch = f"import pathlib; pathlib.Path({str(ran)!r}).touch()"
    install(site, "acme-sources", "Data sources for Apache Spark", {
        "acme_sources_t/__init__.py": "from .inner.sample import Sample, Worked\n",
        "acme_sources_t/inner/sample.py": touch + sample() + sample("Worked", "'wor' + 'ked'"),
        "acme_sources_t/broken.py": "import no_such_module_at_all\n" + sample("Broken", "'broken'"),
        "acme_sources_t/garbage.py": "class (DataSource:\n",
    })
    install(site, "acme-silent", "Says nothing", {"acme_silent_t.py": sample("Silent", "'silent'")})
    install(site, "acme-published", "Says nothing", {"acme_published_t.py": sample("Published", "'x'")},
            "[heeler.data_sources]\npublic = acme_published_t:Published\n")
    found = {(f.alias, f.target) for f in data_source_discovery.installed() if f.target.startswith("acme_")}
    assert found == {("sample", "acme_sources_t.inner.sample:Sample"), (None, "acme_sources_t.inner.sample:Worked"),
                     ("broken", "acme_sources_t.broken:Broken"), ("public", "acme_published_t:Published")}
    assert not ran.exists()
    for name in ("sample", "Sample", "acme_sources_t:Sample", "acme_sources_t.Sample", "worked", "public",
                 "acme_sources_t.inner.sample:Sample", "acme_published_t.Published"):
        assert not problem(name), name
    assert problem("broken").endswith("acme_sources_t.broken:Broken cannot be imported: No module named "
                                      "'no_such_module_at_all' (broken.py, line 1)")
    assert "no data source has this name" in problem("silent")
    assert "no data source has this name" in problem("acme_silent_t:Silent")


def test_formats_of_packages_that_pip_put_into_a_folder_are_found(tmp_path):
    install(tmp_path, "acme-target", "Data sources for Apache Spark",
            {"acme_target/__init__.py": "", "acme_target/inner.py": sample() + sample("Published", "'x'")},
            "[heeler.data_sources]\npublic = acme_target.inner:Published\n")
    install(tmp_path, "acme-silent", "Says nothing", {"acme_silent.py": sample("Silent", "'silent'")})
    found = [*discovery.in_folders([str(tmp_path)], print)]
    assert {(f.alias, f.target) for f in found} == {
        ("public", "acme_target.inner:Published"), ("sample", "acme_target.inner:Sample")}
    data_source_discovery.add(found)
    assert not problem("sample")
    assert "no data source has this name" in problem("silent")


def test_an_ambiguous_format_name_is_reported(site):
    for which in ("a", "b"):
        install(site, f"acme-{which}", "for Spark", {f"acme_t_{which}.py": sample()})
    assert ("several data sources have this name: acme_t_a:Sample, acme_t_b:Sample; use the full path of one"
            in problem("sample"))
    assert not problem("acme_t_b:Sample")


def test_modules_named_by_a_format_are_not_imported(site):
    (site / "elsewhere_t.py").write_text(f"import pathlib; pathlib.Path({str(site / 'ran')!r}).touch()" + sample())
    for name in ("elsewhere_t:Sample", "elsewhere_t.Sample", "elsewhere_t:x.y", "tests.rigs.task_plugins:Numbers"):
        assert "no data source has this name" in problem(name)
    assert not (site / "ran").exists()


@pytest.mark.parametrize("by", ["row", "batch"])
def test_sink_writers_get_the_columns_of_the_data(by):
    Keeping.committed.clear()
    made = PySparkSinkConnector.data_source({"format": f"{HERE}:Keeping", "option.by": by})
    writer = made.writer(None, overwrite=False)
    batches = [pa.record_batch({"id": [1, 2]}), pa.record_batch({"id": [3]}), pa.record_batch({"name": ["x"]})]
    message = pickle.loads(pickle.dumps(cloudpickle.loads(cloudpickle.dumps(writer)).write(iter(batches))))
    writer.commit([message, None])
    assert Keeping.committed == [
        ("struct<id:bigint>", [{"id": 1}, {"id": 2}, {"id": 3}]), ("struct<name:string>", [{"name": "x"}]),
    ]  # fmt: skip
    writer.abort([message])
    assert Keeping.committed[2:] == [("aborted", 1), ("aborted", 1)]


def test_a_writer_commits_or_aborts_what_its_copy_has_written():
    Keeping.committed.clear()
    writer = PySparkSinkConnector.data_source({"format": f"{HERE}:Staged"}).writer(None, overwrite=False)
    messages = [writer.write(iter([pa.record_batch({"id": [n]})])) for n in range(3)]
    writer.commit(messages[:2])
    assert Keeping.committed == [(1, [{"id": 0}]), (1, [{"id": 1}])]
    writer.abort(messages[2:])
    assert not Staged.places
