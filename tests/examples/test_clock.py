"""The connector in docs/writing-a-connector.md: the text there equals the file here, and the file works."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from spark_tasks.plugins import Plugins
from spark_tasks.sources.readers import StreamReader
from spark_tasks.tasks.configs import make_task_configs
from spark_tasks.validation import ValidationSettings, validate_connector

EXAMPLE = Path(__file__).with_name("clock.py")
GUIDE = Path(__file__).parents[2] / "docs" / "writing-a-connector.md"
BLOCKS = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
CONFIG = {"name": "c", "connector.class": "ClockSource", "topic": "seconds"}


@pytest.fixture
def plugins(tmp_path, monkeypatch):
    """The example in a folder of plugin.path, as the guide says."""
    (tmp_path / "clock.py").write_text(EXAMPLE.read_text())
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield Plugins([str(tmp_path)])
    sys.modules.pop("clock", None)


def test_the_guide_shows_this_file():
    assert BLOCKS[0] == EXAMPLE.read_text()


def test_the_example_has_at_most_thirty_lines():
    assert len([line for line in EXAMPLE.read_text().splitlines() if line.strip()]) <= 30


def test_the_example_is_discovered_and_its_config_is_valid(plugins):
    assert plugins.connector_type(CONFIG) == "source"
    assert validate_connector(CONFIG, plugins=plugins, worker=ValidationSettings()).errors() == []
    [error] = validate_connector({**CONFIG, "topic": None}, plugins=plugins, worker=ValidationSettings()).errors()
    assert "Null value" in error


def test_the_task_resumes_from_an_offset(plugins):
    cls = plugins.connector("ClockSource")
    connector = cls(CONFIG, context=None)
    connector.start()
    [task] = make_task_configs("c", connector, "clock.ClockSourceConnector", CONFIG, CONFIG)
    assert task == {**CONFIG, "task.class": "clock.ClockSourceTask"}
    stream = StreamReader(cls.data_source(task))
    assert stream.simple
    assert stream.schema.names == ["second"]
    now = stream.reader.initialOffset()["second"]
    rows, end = stream.reader.read({"second": now - 3})
    read = list(rows)
    assert read[:3] == [(now - 3,), (now - 2,), (now - 1,)]
    assert list(stream.reader.readBetweenOffsets({"second": now - 3}, end)) == read
    assert end["second"] >= now


def test_the_other_blocks_of_the_guide_are_python():
    assert len(BLOCKS) == 3
    scope = {}
    exec(BLOCKS[1], scope)  # noqa: S102  (our own documentation)
    assert list(scope["config_def"].parse({"url": "x"})) == ["url", "password", "batch", "mode"]


def test_paths_that_the_guide_names_exist():
    named = set(re.findall(r"`(spark_tasks/[\w/]+\.py)`", GUIDE.read_text()))
    assert named
    root = GUIDE.parents[1]
    assert [name for name in named if not (root / name).exists()] == []
