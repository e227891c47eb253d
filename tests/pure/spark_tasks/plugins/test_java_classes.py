"""The table of Java's classes, and docs/plugins.md, which is made from it."""

from __future__ import annotations

import re

import pytest

from spark_tasks.plugins import Kind, Plugins, discovery
from spark_tasks.plugins.java_classes import JAVA, instead
from tests.golden.validate import cases
from tests.rigs.plugins_page import DOCUMENT, page

ANSWERS = cases.load()


def test_the_plugins_page_is_up_to_date():
    """make plugins-doc"""
    assert DOCUMENT.read_text() == page()


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
