"""The requests whose answers by Java Kafka Connect lie in answers.json: what is sent, and to which kind of worker."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

SOURCE = {"name": "n", "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector", "topic": "t"}
SINK = {"name": "n", "connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector", "topics": "t"}
T = "org.apache.kafka.connect.transforms."
P = T + "predicates."

# Worker properties on top of the default ones; every kind has the file and env config providers and group.id=val.
WORKERS: dict[str, dict[str, str]] = {
    "default": {},
    "none": {"connector.client.config.override.policy": "None"},
    "principal": {"connector.client.config.override.policy": "Principal"},
    "allowlist": {
        "connector.client.config.override.policy": "Allowlist",
        "connector.client.config.override.allowlist": "linger.ms, acks",
    },
    "eos": {"exactly.once.source.support": "enabled"},
}


def _sink(**more: str | None) -> dict[str, str | None]:
    return {**SINK, **{k.replace("__", "."): v for k, v in more.items()}}


def _with(base: dict[str, str], more: dict[str, str | None], *drop: str) -> dict[str, str | None]:
    return {k: v for k, v in {**base, **more}.items() if k not in drop}


SMT = {"transforms": "a", "transforms.a.type": T + "InsertField$Value"}
OVERRIDES: dict[str, str | None] = {
    "producer.override.linger.ms": "5",
    "producer.override.acks": "all",
    "producer.override.sasl.mechanism": "PLAIN",
    "producer.override.my.own": "x",
    "producer.override.ssl.key.password": "secret",
    "consumer.override.max.poll.records": "7",
    "admin.override.retries": "3",
}

CASES: dict[str, tuple[str, str, dict[str, str | None]]] = {
    "source": ("default", "FileStreamSource", _with(SOURCE, {})),
    "source_full_name": ("default", SOURCE["connector.class"], _with(SOURCE, {"file": "/x", "batch.size": "7"})),
    "sink": ("default", "FileStreamSink", _with(SINK, {"file": "/x"})),
    "sink_alias": ("default", "FileStreamSinkConnector", _with(SINK, {"connector.class": "FileStreamSink"})),
    "empty": ("default", "FileStreamSource", {"connector.class": "FileStreamSource"}),
    "no_class": ("default", "FileStreamSource", {"name": "n"}),
    "unknown_class": ("default", "Nope", {"name": "n", "connector.class": "Nope"}),
    "class_mismatch": ("default", "FileStreamSource", _with(SINK, {})),
    "not_a_connector": ("default", "JsonConverter", {"connector.class": "org.apache.kafka.connect.json.JsonConverter"}),
    "bad_values": ("default", "FileStreamSource", _with(SOURCE, {
        "name": "", "tasks.max": "0", "tasks.max.enforce": "maybe", "batch.size": "x", "errors.tolerance": "some",
        "errors.retry.timeout": "1.5", "config.action.reload": "now", "exactly.once.support": "perhaps",
        "transaction.boundary": "never", "transaction.boundary.interval.ms": "-1", "offsets.storage.topic": "",
        "topic.creation.groups": "a,a"})),
    "bad_tasks_max": ("default", "FileStreamSource", _with(SOURCE, {"tasks.max": "many"})),
    "control_chars": ("default", "FileStreamSource", _with(SOURCE, {"name": "a\u0001b"})),
    "null_values": ("default", "FileStreamSource", _with(SOURCE, {"file": None, "extra": None})),
    "unknown_keys": ("default", "FileStreamSource", _with(SOURCE, {"extra": "1", "key.converter.x": "2"})),
    "no_topics": ("default", "FileStreamSink", _with(SINK, {}, "topics")),
    "both_topics": ("default", "FileStreamSink", _sink(topics__regex="t.*")),
    "bad_regex": ("default", "FileStreamSink", _with(SINK, {"topics.regex": "t("}, "topics")),
    "regex": ("default", "FileStreamSink", _with(SINK, {"topics.regex": "t.*"}, "topics")),
    "topics_duplicates": ("default", "FileStreamSink", _sink(topics="a,b,a")),
    "topics_empty_item": ("default", "FileStreamSink", _sink(topics="a,,b")),
    "dlq_in_topics": ("default", "FileStreamSink", _with(SINK, {
        "topics": "a, dlq", "errors.deadletterqueue.topic.name": "dlq"})),
    "dlq_in_regex": ("default", "FileStreamSink", _with(SINK, {
        "topics.regex": "d.*", "errors.deadletterqueue.topic.name": "dlq"}, "topics")),
    "dlq": ("default", "FileStreamSink", _with(SINK, {
        "errors.deadletterqueue.topic.name": "dlq", "errors.deadletterqueue.topic.replication.factor": "x"})),
    "group_conflict_override": ("default", "FileStreamSink", _with(SINK, {"consumer.override.group.id": "val"})),
    "group_override": ("default", "FileStreamSink", _with(SINK, {"consumer.override.group.id": "other"})),
    "converters": ("default", "FileStreamSource", _with(SOURCE, {
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter", "value.converter.schemas.enable": "false",
        "header.converter": "org.apache.kafka.connect.storage.SimpleHeaderConverter"})),
    "converter_alias": ("default", "FileStreamSource", _with(SOURCE, {"value.converter": "JsonConverter"})),
    "converter_short_alias": ("default", "FileStreamSource", _with(SOURCE, {"value.converter": "Json"})),
    "converter_bad_config": ("default", "FileStreamSource", _with(SOURCE, {
        "value.converter": "org.apache.kafka.connect.json.JsonConverter", "value.converter.schemas.enable": "perhaps",
        "value.converter.schemas.cache.size": "x", "value.converter.decimal.format": "ROMAN"})),
    "converter_unknown": ("default", "FileStreamSource", _with(SOURCE, {
        "key.converter": "no.such.Converter", "value.converter": "no.such.Converter",
        "header.converter": "no.such.Converter"})),
    "converter_wrong_kind": ("default", "FileStreamSource", _with(SOURCE, {
        "key.converter": T + "Filter", "header.converter": T + "Filter"})),
    "converter_abstract": ("default", "FileStreamSource", _with(SOURCE, {
        "key.converter": "org.apache.kafka.connect.storage.Converter"})),
    "converter_empty": ("default", "FileStreamSource", _with(SOURCE, {"key.converter": ""})),
    "transform": ("default", "FileStreamSource", _with(SOURCE, {**SMT, "transforms.a.static.field": "f"})),
    "transform_alias": ("default", "FileStreamSource", _with(SOURCE, {
        "transforms": "a,b", "transforms.a.type": "InsertField$Value", "transforms.b.type": "RegexRouter"})),
    "transform_no_type": ("default", "FileStreamSource", _with(SOURCE, {"transforms": "a"})),
    "transform_unknown": ("default", "FileStreamSource", _with(SOURCE, {
        "transforms": "a", "transforms.a.type": "no.such.Transform", "transforms.a.x": "1"})),
    "transform_wrong_kind": ("default", "FileStreamSource", _with(SOURCE, {
        "transforms": "a", "transforms.a.type": P + "RecordIsTombstone"})),
    "transform_abstract": ("default", "FileStreamSource", _with(SOURCE, {
        "transforms": "a", "transforms.a.type": T + "InsertField"})),
    "transform_missing_config": ("default", "FileStreamSource", _with(SOURCE, {
        "transforms": "a", "transforms.a.type": T + "RegexRouter"})),
    "transform_duplicate": ("default", "FileStreamSource", _with(SOURCE, {**SMT, "transforms": "a,a"})),
    "transform_empty_alias": ("default", "FileStreamSource", _with(SOURCE, {**SMT, "transforms": "a,,"})),
    "predicate": ("default", "FileStreamSource", _with(SOURCE, {
        **SMT, "transforms.a.predicate": "p", "transforms.a.negate": "true", "predicates": "p",
        "predicates.p.type": P + "TopicNameMatches", "predicates.p.pattern": "x.*"})),
    "predicate_undefined": ("default", "FileStreamSource", _with(SOURCE, {**SMT, "transforms.a.predicate": "p"})),
    "negate_alone": ("default", "FileStreamSource", _with(SOURCE, {**SMT, "transforms.a.negate": "true"})),
    "negate_bad": ("default", "FileStreamSource", _with(SOURCE, {
        **SMT, "transforms.a.predicate": "p", "transforms.a.negate": "perhaps", "predicates": "p",
        "predicates.p.type": P + "RecordIsTombstone"})),
    "predicate_unknown": ("default", "FileStreamSource", _with(SOURCE, {
        "predicates": "p", "predicates.p.type": "no.such.Predicate"})),
    "predicate_bad_config": ("default", "FileStreamSource", _with(SOURCE, {
        "predicates": "p", "predicates.p.type": P + "TopicNameMatches", "predicates.p.pattern": "("})),
    "predicate_duplicate": ("default", "FileStreamSource", _with(SOURCE, {
        "predicates": "p,p", "predicates.p.type": P + "RecordIsTombstone"})),
    "topic_creation": ("default", "FileStreamSource", _with(SOURCE, {
        "topic.creation.default.partitions": "3", "topic.creation.default.replication.factor": "1"})),
    "topic_creation_groups": ("default", "FileStreamSource", _with(SOURCE, {
        "topic.creation.groups": "g", "topic.creation.g.include": "(", "topic.creation.default.partitions": "x"})),
    "overrides_source": ("default", "FileStreamSource", _with(SOURCE, OVERRIDES)),
    "overrides_sink": ("default", "FileStreamSink", _with(SINK, OVERRIDES)),
    "overrides_sink_dlq": ("default", "FileStreamSink", _with(SINK, {
        **OVERRIDES, "errors.deadletterqueue.topic.name": "d"})),
    "overrides_source_topic": ("default", "FileStreamSource", _with(SOURCE, {
        **OVERRIDES, "offsets.storage.topic": "o"})),
    "override_bad_value": ("default", "FileStreamSource", _with(SOURCE, {"producer.override.linger.ms": "x"})),
    "overrides_none_source": ("none", "FileStreamSource", _with(SOURCE, OVERRIDES)),
    "overrides_none_sink": ("none", "FileStreamSink", _with(SINK, OVERRIDES)),
    "overrides_principal": ("principal", "FileStreamSource", _with(SOURCE, OVERRIDES)),
    "overrides_allowlist": ("allowlist", "FileStreamSource", _with(SOURCE, OVERRIDES)),
    "eos_required_off": ("default", "FileStreamSource", _with(SOURCE, {
        "exactly.once.support": "required", "file": "/x"})),
    "eos_required_on": ("eos", "FileStreamSource", _with(SOURCE, {"exactly.once.support": "REQUIRED", "file": "/x"})),
    "eos_required_unfit": ("eos", "FileStreamSource", _with(SOURCE, {"exactly.once.support": "required"})),
    "eos_boundary_connector": ("eos", "FileStreamSource", _with(SOURCE, {"transaction.boundary": "connector"})),
    "eos_overrides": ("eos", "FileStreamSource", _with(SOURCE, OVERRIDES)),
    "placeholders": ("default", "FileStreamSource", _with(SOURCE, {
        "file": "${env:HOME}", "topic": "${env:NOT_SET_X}"})),
    "placeholders_bad": ("default", "FileStreamSource", _with(SOURCE, {"file": "${file:/no/such/file:key}"})),
    "plugin_version": ("default", "FileStreamSource", _with(SOURCE, {"connector.plugin.version": "4.3.1"})),
    "plugin_version_range": ("default", "FileStreamSource", _with(SOURCE, {"connector.plugin.version": "[3.0,5.0)"})),
    "plugin_version_wrong": ("default", "FileStreamSource", _with(SOURCE, {"connector.plugin.version": "9.9.9"})),
    "converter_version": ("default", "FileStreamSource", _with(SOURCE, {
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "key.converter.plugin.version": "[4.0,5.0)"})),
    "transform_version": ("default", "FileStreamSource", _with(SOURCE, {
        "transforms": "a", "transforms.a.type": T + "DropHeaders", "transforms.a.headers": "h",
        "transforms.a.plugin.version": "9.9"})),
}

# Each transform with options that are missing or wrong.
WRONG: dict[str, tuple[dict[str, str], ...]] = {
    "Cast$Value": ({}, {"spec": ""}, {"spec": "a:int9"}, {"spec": "a:b:c"}, {"spec": "int8,a:int8"}),
    "DropHeaders": ({}, {"headers": ""}),
    "ExtractField$Key": ({}, {"field": "a", "field.syntax.version": "V3"}),
    "Filter": ({}, {"predicate": "none"}),
    "Flatten$Value": ({}, {"delimiter": ""}),
    "HeaderFrom$Value": ({}, {"fields": "", "headers": "", "operation": "copy"},
                         {"fields": "a", "headers": "b,c", "operation": "swap"}),
    "HoistField$Value": ({}, {"field": ""}),
    "InsertField$Value": ({}, {"static.field": "f"}, {"replace.null.with.default": "perhaps"}),
    "InsertHeader": ({}, {"header": "h"}, {"header": "", "value.literal": ""}),
    "MaskField$Value": ({}, {"fields": ""}, {"fields": "a", "replacement": ""}),
    "RegexRouter": ({"regex": "("}, {"regex": "", "replacement": ""}),
    "ReplaceField$Value": ({"renames": "a"}, {"renames": "a:b:c", "include": "", "exclude": ""}, {"blacklist": "a"}),
    "SetSchemaMetadata$Value": ({}, {"schema.version": "x"}),
    "TimestampConverter$Value": ({}, {"target.type": "when"}, {"target.type": "string"},
                                 {"target.type": "Date", "unix.precision": "days", "format": "bad"}),
    "TimestampRouter": ({"topic.format": ""}, {"timestamp.format": ""}),
    "ValueToKey": ({}, {"fields": ""}, {"fields": "a,a"}),
}  # fmt: skip
CASES |= {
    f"wrong {name} {number}": ("default", "FileStreamSource", _with(SOURCE, {
        "transforms": "a", "transforms.a.type": T + name,
        **{f"transforms.a.{key}": value for key, value in options.items()}}))
    for name, wrong in WRONG.items() for number, options in enumerate(wrong)
}

# POST /connectors with a bad config: only status and message count.
CREATE: dict[str, dict[str, str | None]] = {
    "create_bad": _with(SOURCE, {"tasks.max": "0", "errors.tolerance": "some", "name": "n"}),
    "create_no_class": {"name": "n"},
    "create_unknown_class": {"name": "n", "connector.class": "Nope"},
}

PLUGIN_CONFIGS = (
    "FileStreamSource", "org.apache.kafka.connect.file.FileStreamSinkConnector",
    "org.apache.kafka.connect.json.JsonConverter", "StringConverter",
    "org.apache.kafka.connect.storage.SimpleHeaderConverter", "org.apache.kafka.connect.transforms.InsertField$Value",
    P + "TopicNameMatches", P + "RecordIsTombstone", "Nope", "org.apache.kafka.connect.transforms.InsertField",
    "org.apache.kafka.common.config.provider.FileConfigProvider", "FileConfigProvider",
)


def load() -> dict[str, Any]:
    """What record.py wrote: {"status", "body"} by case, by name in CREATE, "config PLUGIN", and "plugins"."""
    file = json.loads(Path(__file__).with_name("answers.json").read_text())

    def full(value: Any) -> Any:
        if isinstance(value, dict):
            return file["shared"][value["shared"]] if "shared" in value else {k: full(v) for k, v in value.items()}
        return [full(v) for v in value] if isinstance(value, list) else value

    return {name: full(answer) for name, answer in file["answers"].items()}
