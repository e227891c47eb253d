"""docs/plugins.md and the table of Java's classes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from spark_tasks.plugins import Kind, Plugins, discovery
from spark_tasks.plugins.java_classes import JAVA, instead
from spark_tasks.plugins.support import page
from tests.pure.spark_tasks.validation.test_golden import ANSWERS

ROOT = Path(__file__).parents[4]


def test_the_plugins_page_is_up_to_date():
    """python -m spark_tasks.plugins.support docs/plugins.md"""
    assert (ROOT / "docs" / "plugins.md").read_text() == page()


def test_no_built_in_plugin_is_listed_as_unsupported():
    assert [f.name for f in discovery.installed() if f.name in JAVA.get(f.kind, {})] == []


def test_every_plugin_that_the_table_recommends_exists():
    plugins = Plugins()
    for table in JAVA.values():
        for text in table.values():
            for name in re.findall("`([^`]+)`", text):
                assert any(plugins.exists(kind, name) for kind in Kind), name


KINDS = {"source": Kind.CONNECTOR, "sink": Kind.CONNECTOR, **{kind.name.lower(): kind for kind in Kind}}


@pytest.mark.parametrize(("kind", "name"), [(KINDS[p["type"]], p["class"]) for p in ANSWERS["plugins"]["body"]])
def test_every_plugin_of_apache_kafka_is_built_in_or_in_the_table(kind, name):
    assert Plugins().exists(kind, name) or instead(kind, name) is not None
