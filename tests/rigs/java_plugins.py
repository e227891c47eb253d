"""Plugins with the names and keys of Java's, so that validation can be compared key by key with Java's responses."""

from __future__ import annotations

from typing import Any

from spark_tasks.config.definition import (
    ConfigDef,
    ConfigKey,
    Importance,
    OneOf,
    OneOfIgnoringCase,
    Type,
    Width,
)
from spark_tasks.config.validators import ValidRegex
from spark_tasks.plugins import Kind, Plugins
from spark_tasks.plugins.api import SinkConnector, SourceConnector
from spark_tasks.plugins.discovery import Found

VERSION = "4.3.1"
HIGH, LOW = Importance.HIGH, Importance.LOW
CONNECT = "org.apache.kafka.connect."


class FileStreamSourceConnector(SourceConnector):
    version = VERSION
    config_def = ConfigDef(
        ConfigKey("file", Type.STRING, default=None, importance=HIGH),
        ConfigKey("topic", Type.STRING, importance=HIGH),
        ConfigKey("batch.size", Type.INT, default=2000, importance=LOW),
    )

    @classmethod
    def exactly_once_support(cls, config):
        return bool(config.get("file"))

    def task_configs(self, max_tasks):
        return [dict(self.config)][:max_tasks]

    @classmethod
    def data_source(cls, options):
        raise NotImplementedError


class FileStreamSinkConnector(SinkConnector):
    version = VERSION
    config_def = ConfigDef(ConfigKey("file", Type.STRING, default=None, importance=HIGH))

    def task_configs(self, max_tasks):
        return [dict(self.config)] * max_tasks

    @classmethod
    def data_source(cls, options):
        raise NotImplementedError


_TYPE = ConfigDef(ConfigKey("converter.type", Type.STRING, validator=OneOf("key", "value", "header"), importance=LOW))


class StringConverter:
    version = VERSION
    config_def = _TYPE.plus(
        ConfigKey("converter.encoding", Type.STRING, default="UTF-8", importance=HIGH, width=Width.MEDIUM,
                  display_name="Encoding"))


def _json(name: str, kind: Type, default: Any, group: str, order: int, display: str, **more: Any) -> ConfigKey:
    importance = HIGH if group == "Schemas" else LOW
    return ConfigKey(name, kind, default=default, group=group, order=order, width=Width.MEDIUM, display_name=display,
                     importance=importance, **more)


class JsonConverter:
    version = VERSION
    config_def = _TYPE.plus(
        _json("schemas.enable", Type.BOOLEAN, True, "Schemas", 0, "Enable Schemas"),
        _json("schemas.cache.size", Type.INT, 1000, "Schemas", 1, "Schema Cache Size"),
        _json("schema.content", Type.STRING, None, "Schemas", 2, "Schema Content"),
        _json("decimal.format", Type.STRING, "BASE64", "Serialization", 0, "Decimal Format",
              validator=OneOfIgnoringCase("NUMERIC", "BASE64")),
        _json("replace.null.with.default", Type.BOOLEAN, True, "Serialization", 1, "Replace null with default"),
    )


class SimpleHeaderConverter:
    version = VERSION
    config_def = ConfigDef()


class RegexRouter:
    version = VERSION
    config_def = ConfigDef(
        ConfigKey("regex", Type.STRING, validator=ValidRegex(), importance=HIGH),
        ConfigKey("replacement", Type.STRING, importance=HIGH),
    )


class InsertField:
    version = VERSION
    config_def = ConfigDef(
        *(ConfigKey(name, Type.STRING, default=None)
          for name in ("topic.field", "partition.field", "offset.field", "timestamp.field", "static.field",
                       "static.value")),
        ConfigKey("replace.null.with.default", Type.BOOLEAN, default=True),
    )


class DropHeaders:
    version = VERSION
    config_def = ConfigDef(ConfigKey("headers", Type.LIST, importance=HIGH))


class Filter:
    version = VERSION
    config_def = ConfigDef()


class TopicNameMatches:
    version = VERSION
    config_def = ConfigDef(ConfigKey("pattern", Type.STRING, validator=ValidRegex()))


class RecordIsTombstone:
    version = VERSION
    config_def = ConfigDef()


_NAMES = {
    Kind.CONNECTOR: ["file.FileStreamSinkConnector", "file.FileStreamSourceConnector"],
    Kind.CONVERTER: ["json.JsonConverter", "storage.StringConverter"],
    Kind.HEADER_CONVERTER: ["json.JsonConverter", "storage.SimpleHeaderConverter", "storage.StringConverter"],
    Kind.TRANSFORMATION: ["transforms.DropHeaders", "transforms.Filter", "transforms.InsertField$Key",
                          "transforms.InsertField$Value", "transforms.RegexRouter"],
    Kind.PREDICATE: ["transforms.predicates.RecordIsTombstone", "transforms.predicates.TopicNameMatches"],
}


def java_like() -> Plugins:
    found = [
        Found(CONNECT + name, kind, f"{__name__}:{name.rpartition('.')[2].partition('$')[0]}", "classpath")
        for kind, names in _NAMES.items() for name in names
    ]
    return Plugins(installed=found)
