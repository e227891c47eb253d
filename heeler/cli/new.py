"""`heeler new connector`: creates a package with a source or a sink, its test and its entry point."""

from __future__ import annotations

import keyword
import re
import sys
from importlib.util import find_spec
from pathlib import Path
from string import Template
from typing import Final

import click

from heeler.cli.console.terminal import errors_without_trace
from heeler.errors import SetupError

_NAME = re.compile(r"[a-z][a-z0-9]*(?:[-_][a-z0-9]+)*")
_TAKEN: Final = {"heeler", "actors", "rest", "storage", "spark_tasks", "tests", "pyspark", "kafka",
                 "null",  # in the YAML file, it would not be a name
                 *keyword.kwlist, *sys.stdlib_module_names}

_PROJECT = """[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "$name"
version = "0.1.0"
description = "A connector for heeler"
requires-python = ">=3.11"
dependencies = ["heeler"]

[project.optional-dependencies]
dev = ["pytest"]

# Workers find these connectors wherever the package is installed.
[project.entry-points."heeler.connectors"]
"$module.$cls" = "$module.connector:$cls"

[tool.setuptools.packages.find]
include = ["$module*"]

[tool.pytest.ini_options]
testpaths = ["tests"]
pythonpath = ["."]
"""

_README = """# $name

A $kind connector for heeler. heeler's docs/writing-a-connector.md explains each part.

    pip install -e '.[dev]'     # or copy this folder into a folder of a worker's plugin.path
    pytest                      # the tests pass as they are
    heeler try connector.yaml$trial
    heeler connectors apply connector.yaml
"""

_INIT = '"""The connector $name."""\n'

_SOURCE = '''"""A source connector: its configuration, and the reader of its task."""

from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader

from heeler import ConfigDef, ConfigKey, SourceConnector, Type


class Reader(SimpleDataSourceStreamReader):
    """Reads the rows after an offset, which is a dict that can be written as JSON."""

    def __init__(self, options):
        self.count = int(options.get("count", "10"))

    def initialOffset(self):
        """The offset to begin with if the connector has none in Kafka."""
        return {"next": 0}

    def read(self, start):
        """The new rows, and the offset after them; if there are none, the same offset as `start`."""
        end = {"next": self.count}
        return self.readBetweenOffsets(start, end), end

    def readBetweenOffsets(self, start, end):
        """The rows between two offsets, when a batch is repeated: always the same rows."""
        return ((number, f"row {number}") for number in range(start["next"], end["next"]))


class Rows(DataSource):
    """The PySpark data source: the schema of the rows, and their reader."""

    def schema(self):
        return "number bigint, text string"

    def simpleStreamReader(self, schema):
        return Reader(self.options)


class $cls(SourceConnector):
    """The connector: connector.class names this class."""

    version = "0.1.0"
    yields = "rows"  # each row becomes the value of a record for the topic in the key `topic`
    config_def = ConfigDef(
        ConfigKey("topic", Type.STRING, doc="The topic to write to."),
        ConfigKey("count", Type.INT, default=10, doc="The number of rows."),
    )

    @classmethod
    def data_source(cls, options):
        return Rows(options)
'''

_SOURCE_TEST = '''"""Tests of the reader and the configuration. heeler try connector.yaml shows the records."""

from $module.connector import $cls


def reader(**options):
    source = $cls.data_source({"topic": "$module", **options})
    return source.simpleStreamReader(source.schema())


def test_it_reads_from_the_beginning_and_continues_after_its_offset():
    one = reader(count="3")
    rows, end = one.read(one.initialOffset())
    assert list(rows) == [(0, "row 0"), (1, "row 1"), (2, "row 2")]
    more = reader(count="4")
    rows, end = more.read(end)
    assert list(rows) == [(3, "row 3")]
    nothing, same = more.read(end)
    assert (list(nothing), same) == ([], end)


def test_its_configuration():
    parsed = $cls.config_def.parse({"topic": "t", "count": "5"})
    assert (parsed["topic"], parsed["count"]) == ("t", 5)
'''

_SINK = '''"""A sink connector: its configuration, and the writer of its task."""

import json
import uuid
from pathlib import Path

from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage

from heeler import ConfigDef, ConfigKey, SinkConnector, Type


class Written(WriterCommitMessage):
    """The result of write() on an executor, for commit() on the worker."""

    def __init__(self, file):
        self.file = file


class Writer(DataSourceArrowWriter):
    """Writes a file of JSON lines for each batch. The file appears when it is complete."""

    def __init__(self, options):
        self.folder = options["folder"]

    def write(self, batches):
        """Runs on an executor. The written data must not be visible before `commit`."""
        folder = Path(self.folder)
        folder.mkdir(parents=True, exist_ok=True)
        name = uuid.uuid4().hex
        with (folder / f".{name}").open("w") as file:
            for batch in batches:
                file.writelines(json.dumps(row, default=str) + "\\n" for row in batch.to_pylist())
        return Written(name)

    def commit(self, messages):
        """Runs on the worker, after the whole batch has been written and before its offsets are committed."""
        for message in messages:
            if message is not None:
                (Path(self.folder) / f".{message.file}").rename(Path(self.folder) / f"{message.file}.jsonl")

    def abort(self, messages):
        """Runs on the worker if the batch has failed and will be repeated."""
        for message in messages:
            if message is not None:
                (Path(self.folder) / f".{message.file}").unlink(missing_ok=True)


class Files(DataSource):
    """The PySpark data source, which creates the writer."""

    def writer(self, schema, overwrite):
        return Writer(self.options)


class $cls(SinkConnector):
    """The connector: connector.class names this class."""

    version = "0.1.0"
    accepts = "rows"  # write() gets the fields of the records' values as columns; "records": keys and more, too
    config_def = ConfigDef(ConfigKey("folder", Type.STRING, doc="The folder for the files."))

    @classmethod
    def data_source(cls, options):
        return Files(options)
'''

_SINK_TEST = '''"""Tests of the writer and the configuration."""

import pyarrow as pa

from $module.connector import $cls


def test_a_batch_is_visible_after_the_commit(tmp_path):
    writer = $cls.data_source({"folder": str(tmp_path)}).writer(None, overwrite=False)
    message = writer.write(iter([pa.RecordBatch.from_pylist([{"a": 1}, {"a": 2}])]))
    assert list(tmp_path.glob("*.jsonl")) == []
    writer.commit([message])
    [file] = tmp_path.glob("*.jsonl")
    assert file.read_text() == '{"a": 1}\\n{"a": 2}\\n'


def test_an_aborted_batch_leaves_no_files(tmp_path):
    writer = $cls.data_source({"folder": str(tmp_path)}).writer(None, overwrite=False)
    writer.abort([writer.write(iter([pa.RecordBatch.from_pylist([{"a": 1}])]))])
    assert list(tmp_path.iterdir()) == []


def test_its_configuration():
    assert $cls.config_def.parse({"folder": "f"})["folder"] == "f"
'''

_YAML = {
    "source": "name: $name\nconnector.class: $module.connector.$cls\ntopic: $module\ncount: 10\n",
    "sink": "name: $name\nconnector.class: $module.connector.$cls\ntopics: $module\nfolder: /tmp/$module\n"
            "value.converter: org.apache.kafka.connect.json.JsonConverter\nvalue.converter.schemas.enable: false\n",
}
_FILES: Final = {
    "source": {"pyproject.toml": _PROJECT, "README.md": _README, "$module/__init__.py": _INIT,
               "$module/connector.py": _SOURCE, "tests/test_$module.py": _SOURCE_TEST,
               "connector.yaml": _YAML["source"]},
    "sink": {"pyproject.toml": _PROJECT, "README.md": _README, "$module/__init__.py": _INIT,
             "$module/connector.py": _SINK, "tests/test_$module.py": _SINK_TEST, "connector.yaml": _YAML["sink"],
             "records.jsonl": '{"value": {"a": 1}}\n{"value": {"a": 2}}\n'},
}


@click.group()
def new() -> None:
    """Create new projects."""


@new.command("connector")
@click.argument("name")
@click.option("--kind", type=click.Choice(["source", "sink"]), default="source", show_default=True)
@click.option("--folder", type=click.Path(file_okay=False, path_type=Path), default=Path(), metavar="FOLDER",
              help="Where to create the folder NAME.  [default: here]")
def new_connector(name: str, kind: str, folder: Path) -> None:
    """Create a package NAME with a source or a sink, its tests and its entry point. The tests pass as they are."""
    with errors_without_trace():
        created = write_package(folder, name, kind)
    click.echo(f"Created {created}. Run there: pip install -e '.[dev]', pytest, and heeler try connector.yaml "
               "(see README.md).")


def write_package(folder: Path, name: str, kind: str) -> Path:
    """Creates the package and returns its folder. Raises SetupError if the name is invalid or the folder exists."""
    module = name.replace("-", "_")
    if not _NAME.fullmatch(name) or module in _TAKEN or find_spec(module) is not None:
        raise SetupError(f"{name} is not a valid package name: use lowercase letters and digits, with - or _ between "
                         "them; it must not be a keyword of Python or the name of an installed module")
    words = "".join(word.capitalize() for word in module.split("_"))
    suffix = f"{kind.capitalize()}Connector"
    cls = words if words.endswith(suffix) else f"{words.removesuffix(kind.capitalize())}{suffix}"
    trial = " --records records.jsonl" if kind == "sink" else ""
    fields = {"name": name, "module": module, "cls": cls, "kind": kind, "trial": trial}
    target = folder / name
    try:
        target.mkdir(parents=True)
        for path, text in _FILES[kind].items():
            file = target / Template(path).substitute(fields)
            file.parent.mkdir(exist_ok=True)
            file.write_text(Template(text).substitute(fields))
    except OSError as error:
        raise SetupError(f"{target} cannot be created: {error.strerror}") from error
    return target
