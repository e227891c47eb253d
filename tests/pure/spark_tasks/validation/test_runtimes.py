"""Plugins of both runtimes in one connector."""

from __future__ import annotations

from typing import ClassVar

import pytest

from heeler.worker.part_settings import trial_settings
from spark_tasks.config.definition import ConfigDef, ConfigKey, ConfigValue, Type
from spark_tasks.plugins import Kind, Plugins
from spark_tasks.plugins.api import SourceConnector
from spark_tasks.plugins.discovery import Found
from spark_tasks.validation import plugin_config, validate_connector

STRING = "org.apache.kafka.connect.storage.StringConverter"
WORKER = {"group.id": "g", "key.converter": STRING, "value.converter": STRING}
KEYS = ConfigDef(ConfigKey("topic", Type.STRING))


class Mark:
    version = "1"
    config_def = ConfigDef()


class Source(SourceConnector):
    config_def = KEYS
    data_source = None


class JavaMark(Mark):
    runtime = "java"


class JavaCase(JavaMark):
    config_def = ConfigDef(ConfigKey("case", Type.STRING), ConfigKey("size", Type.INT))

    @classmethod
    def examine(cls, config):  # noqa: ARG003
        return [ConfigValue("case", errors=["Missing required configuration", "null is no case"]),
                ConfigValue("size", 2, errors=["2 is odd for a size"])]


class JavaSource(Source):
    runtime = "java"
    config_def = KEYS.plus(ConfigKey("errors.tolerance", Type.STRING, doc="Of the plugin."))
    examined: ClassVar[list[dict[str, str]]] = []

    @classmethod
    def examine(cls, config):
        cls.examined.append(config)
        return [ConfigValue("topic", config.get("topic"), ["a", "b"], ["no such topic"], visible=False)]


def found(name, kind, cls):
    return Found(name, kind, f"{__name__}:{cls.__name__}", "somewhere")


@pytest.fixture
def plugins():
    native = [
        found("py.Source", Kind.CONNECTOR, Source), found("py.Mark", Kind.TRANSFORMATION, Mark),
        found("py.Converter", Kind.CONVERTER, Mark), found("both.Source", Kind.CONNECTOR, Source),
        found(STRING, Kind.CONVERTER, Mark),
    ]
    java = [
        (found("java.Source", Kind.CONNECTOR, JavaSource), JavaSource),
        (found("java.Mark", Kind.TRANSFORMATION, JavaMark), JavaMark),
        (found("java.Case", Kind.TRANSFORMATION, JavaCase), JavaCase),
        (found("java.Converter", Kind.CONVERTER, JavaMark), JavaMark),
        (found("both.Source", Kind.CONNECTOR, JavaSource), JavaSource),
    ]
    return Plugins(installed=native, others={one: lambda cls=cls: cls for one, cls in java}, complaints=["a bad jar"])


def errors(plugins, connector, worker=(), **more):
    config = {"name": "n", "connector.class": connector, "topic": "t", "topics": "t", **more}
    infos = validate_connector(config, plugins=plugins, worker=trial_settings({**WORKER, **dict(worker)}))
    return {c.value["name"]: c.value["errors"] for c in infos.configs if c.value and c.value["errors"]}


@pytest.mark.parametrize("side", ["py", "java"])
def test_plugins_of_one_runtime_can_be_combined(plugins, side):
    chain = {"transforms": "m", "transforms.m.type": f"{side}.Mark", "value.converter": f"{side}.Converter"}
    wrong = errors(plugins, f"{side}.Source", **chain)
    assert wrong == ({} if side == "py" else {"topic": ["no such topic"]})


def test_a_java_connector_takes_python_plugins_where_its_chain_can_be_cut(plugins):
    """More cases: tests/pure/spark_tasks/plugins/test_chain_cut.py."""
    java, python = {"transforms.j.type": "java.Mark"}, {"transforms.p.type": "py.Mark"}
    worker = {"key.converter": "py.Converter"}
    assert errors(plugins, "java.Source", worker, transforms="j,p", **java, **python) == {"topic": ["no such topic"]}
    wrong = errors(plugins, "java.Source", worker, transforms="p,j", **java, **python)
    assert "java.Mark (transforms.j) is a Java plugin and comes after" in wrong["transforms.j.type"][0]


def test_a_python_connector_takes_java_plugins_where_executors_reach_them(plugins):
    chain = {"transforms": "m", "transforms.m.type": "java.Mark"}
    worker = {"key.converter": "java.Converter"}
    assert errors(plugins, "py.Source", worker, **chain) == {}
    wrong = errors(plugins, "py.Source", {**worker, "spark.master": "spark://host:7077"}, **chain)
    assert "executors run on a cluster" in wrong["transforms.m.type"][0]
    assert "executors run on a cluster" in wrong["key.converter"][0], "the worker's own, too"
    assert "value.converter" not in wrong, "Kafka's own are there on both sides"


def test_a_preferred_plugin_of_the_other_runtime_replaces_its_namesake(plugins):
    assert plugins.connector("both.Source") is JavaSource
    assert plugins.names(Kind.CONNECTOR).count("both.Source") == 1
    assert "a bad jar" in plugins.advice(Kind.CONNECTOR, "missing.Source")


def test_a_plugins_validation_gets_the_original_configuration(plugins):
    infos = validate_connector({"name": "n", "connector.class": "java.Source", "topic": "x", "gone": None},
                               plugins=plugins, worker=trial_settings(WORKER))
    assert JavaSource.examined[-1] == {"name": "n", "connector.class": "java.Source", "topic": "x"}
    (value,) = (c.value for c in infos.configs if c.value and c.value["name"] == "topic")
    assert value == {"name": "topic", "value": "x", "recommended_values": ["a", "b"], "errors": ["no such topic"],
                     "visible": False}


def test_the_keys_of_a_connector_that_defines_a_common_one_have_it_once(plugins):
    keys = plugin_config(plugins, "java.Source")
    assert [key["documentation"] for key in keys if key["name"] == "errors.tolerance"] == ["Of the plugin."]
    assert {"tasks.max", "topic"} <= {key["name"] for key in keys}


def test_what_a_java_transforms_validators_report_is_added_to_a_missing_value(plugins):
    """As in Kafka Connect: the messages about missing values and types have the whole key."""
    chain = {"transforms": "c", "transforms.c.type": "java.Case", "transforms.c.size": "2"}
    wrong = errors(plugins, "py.Source", **chain)
    assert wrong["transforms.c.case"] == [
        'Missing required configuration "transforms.c.case" which has no default value.', "null is no case"]
    assert wrong["transforms.c.size"] == ["2 is odd for a size"]
