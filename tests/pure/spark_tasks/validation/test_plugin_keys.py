"""Functions of third parties are called apart, and heeler's own are not."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from heeler import transform
from spark_tasks.config.definition import (
    AllOf,
    Check,
    ConfigDef,
    ConfigError,
    ConfigKey,
    Rule,
    Type,
    Validator,
    at_least,
)
from spark_tasks.plugins import Kind, Plugins
from spark_tasks.plugins.discovery import Found, installed
from spark_tasks.validation import ValidationSettings, validate_connector
from spark_tasks.validation.plugin_keys import RecommendedValues, has_third_party_functions


def even(name: str, value: Any) -> None:
    if value is not None and value % 2:
        raise ConfigError(f"{name} is odd")


class Recommends:
    def valid_values(self, name: str, parsed: Mapping[str, Any]) -> Sequence[Any]:  # noqa: ARG002
        return [2, 4]

    def visible(self, name: str, parsed: Mapping[str, Any]) -> bool:  # noqa: ARG002
        return False


@pytest.mark.parametrize(("validator", "theirs"), [
    (None, False), (at_least(1), False), (AllOf(at_least(1), at_least(2)), False), (even, True),
    (Check(even, "even"), True), (Rule("even", lambda value: not value % 2), True), (AllOf(at_least(1), even), True),
])
def test_validators_of_third_parties_are_found(validator: Validator | None, theirs: bool) -> None:
    definition = ConfigDef(ConfigKey("n", Type.INT, default=2, validator=validator))
    assert has_third_party_functions(definition) is theirs


@pytest.mark.parametrize(("recommender", "theirs"), [(RecommendedValues((1,)), False), (Recommends(), True)])
def test_recommenders_of_third_parties_are_found(recommender: Any, theirs: bool) -> None:
    assert has_third_party_functions(ConfigDef(ConfigKey("n", Type.INT, recommender=recommender))) is theirs


@transform(config=ConfigDef(ConfigKey("n", Type.INT, validator=even, recommender=Recommends())))
def halve(record: Any, options: Any) -> Any:
    return record


PLUGINS = Plugins(installed=[*installed(), Found("halve", Kind.TRANSFORMATION, f"{__name__}:halve", "classpath")])
CONFIG = {"name": "c", "connector.class": "FileStreamSink", "topics": "t", "file": "f", "transforms": "h",
          "transforms.h.type": "halve"}


@pytest.mark.parametrize(("given", "errors"), [
    ({"transforms.h.n": "2"}, []), ({"transforms.h.n": "3"}, ["n is odd"]),
    ({"transforms.h.n": "x"}, ["Invalid value x for configuration transforms.h.n: Not a number of type INT"]),
    ({}, ['Missing required configuration "transforms.h.n" which has no default value.']),
])
def test_the_keys_of_a_transform_are_validated_apart(given: dict[str, str], errors: list[str]) -> None:
    called: list[tuple[Any, ...]] = []

    def apart(plugin: type[Any], function: Callable[..., Any], *arguments: Any) -> Any:
        called.append((plugin, arguments))
        return function(*arguments)

    infos = validate_connector({**CONFIG, **given}, plugins=PLUGINS, worker=ValidationSettings(), apart=apart)
    assert len(called) == 1
    assert infos.errors() == errors
    [value] = [c["value"] for c in infos.to_json()["configs"] if c["value"]["name"] == "transforms.h.n"]
    assert (value["recommended_values"], value["visible"]) == (["2", "4"], False)


@transform(config=ConfigDef(ConfigKey("predicate", Type.INT, validator=even), ConfigKey("n", Type.INT, validator=even)))
def selects(record: Any, options: Any) -> Any:
    return record


def test_keys_of_a_transform_that_every_transform_has_are_replaced() -> None:
    """KIP-585."""
    found = Found("selects", Kind.TRANSFORMATION, f"{__name__}:selects", "classpath")
    plugins = Plugins(installed=[*installed(), found])
    config = {**CONFIG, "transforms.h.type": "selects", "transforms.h.n": "2", "transforms.h.predicate": "p",
              "predicates": "p", "predicates.p.type": "RecordIsTombstone"}
    assert validate_connector(config, plugins=plugins, worker=ValidationSettings()).errors() == []
