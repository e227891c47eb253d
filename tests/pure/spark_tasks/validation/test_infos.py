from __future__ import annotations

import json

import orjson

from spark_tasks.config.definition import ConfigKey, ConfigValue, Password, Type
from spark_tasks.validation.infos import merged, of_keys, under_prefix

KEYS = {"a": ConfigKey("a", Type.INT, group="G"), "p": ConfigKey("p", Type.PASSWORD, default="")}


def test_each_message_counts_as_an_error_except_under_a_prefix():
    values = [ConfigValue("a", None, errors=["one", "two"]), ConfigValue("p", Password("x"))]
    plain, prefixed = of_keys("C", KEYS, values, ["G"]), under_prefix(KEYS, values, "x.")
    assert (plain.error_count, prefixed.error_count) == (2, 1)
    both = merged("C", [plain, prefixed])
    assert (both.name, both.error_count, both.groups) == ("C", 3, ("G",))
    assert both.errors() == ["one", "two"] * 2
    assert [c.definition["name"] for c in both.configs] == ["a", "p", "x.a", "x.p"]


def test_secrets_are_hidden_and_unknown_values_shown_as_text():
    infos = of_keys("C", KEYS, [ConfigValue("p", Password("hunter2")), ConfigValue("z", [1, None])], [])
    assert [c.value and c.value["value"] for c in infos.configs] == ["[1, null]", None, "[hidden]"]
    assert "hunter2" not in repr(infos)


def test_a_response_can_be_serialized_by_a_json_library_that_supports_dataclasses():
    infos = of_keys("C", KEYS, [ConfigValue("a", 5)], ["G"])
    assert json.loads(orjson.dumps(infos)) == infos.to_json()
