"""Transforms and predicates give what Java's gave (tests/golden/transforms; `make transforms-differential`)."""

from __future__ import annotations

import gzip
import json

import pytest

from spark_tasks.plugins import Kind, Plugins
from spark_tasks.validation import plugin_config
from tests.golden.transforms.cases import case
from tests.golden.transforms.record import CLASSES, HERE, MENDED, RECORDED, differences

ANSWERS = gzip.decompress((HERE / "golden.jsonl.gz").read_bytes()).decode().split("\n")[:-1]
CONFIGS = json.loads((HERE / "configs.json").read_text())
PLUGINS = Plugins()
BEYOND_JAVA = "field.syntax.version"  # paths to nested fields, in every transform that names fields


@pytest.mark.parametrize("first", range(0, RECORDED, 50))
def test_results_equal_javas(first):
    found = {n: differences(case(0, n), json.loads(ANSWERS[n])) for n in range(first, first + 50)}
    assert {n: said for n, said in found.items() if said} == {}


def test_results_that_differed_before_equal_javas():
    assert len(ANSWERS) == RECORDED + len(MENDED)
    found = [differences(case(*one), json.loads(said)) for one, said in zip(MENDED, ANSWERS[RECORDED:], strict=True)]
    assert found == [[] for _ in MENDED]


@pytest.mark.parametrize("name", CLASSES)
def test_configuration_keys_equal_javas(name):
    ours = [{k: v for k, v in key.items() if k != "documentation"} for key in plugin_config(PLUGINS, name)]
    javas = CONFIGS[name]
    names = {key["name"] for key in javas}
    assert [key for key in ours if key["name"] in names] == javas
    assert [key["name"] for key in ours if key["name"] not in names] in ([], [BEYOND_JAVA])
    assert all(key["documentation"] for key in plugin_config(PLUGINS, name))


def test_all_of_javas_transforms_and_predicates_exist():
    javas = set(CONFIGS)
    assert javas == {*PLUGINS.names(Kind.TRANSFORMATION), *PLUGINS.names(Kind.PREDICATE)} & javas
    assert PLUGINS.find(Kind.TRANSFORMATION, "RegexRouter").name.endswith(".RegexRouter")
    assert PLUGINS.find(Kind.PREDICATE, "HasHeaderKey").name.endswith(".HasHeaderKey")
