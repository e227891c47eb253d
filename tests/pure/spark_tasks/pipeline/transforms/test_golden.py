"""Transforms and predicates give what Java's gave (tests/golden/transforms; `make transforms-differential`)."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from spark_tasks.errors import DataError
from spark_tasks.pipeline.converters.java_column_text import to_texts
from spark_tasks.pipeline.converters.json import JsonConverter
from spark_tasks.pipeline.sink_pipeline import SinkPipeline
from spark_tasks.plugins import Kind, Plugins
from spark_tasks.validation import plugin_config
from tests.golden.transforms.cases import case
from tests.golden.transforms.record import CLASSES, HERE, MENDED, RECORDED, RECORDED_TOGETHER, differences
from tests.golden.transforms.together import batch_case
from tests.rigs.raw_records import JSON, converted, raw_batch, worker

ANSWERS = gzip.decompress((HERE / "golden.jsonl.gz").read_bytes()).decode().split("\n")[:-1]
TOGETHER = gzip.decompress((HERE / "batches.jsonl.gz").read_bytes()).decode().split("\n")[:-1]
CONFIGS = json.loads((HERE / "configs.json").read_text())
PLUGINS = Plugins()
BEYOND_JAVA = "field.syntax.version"  # paths to nested fields, in every transform that names fields
# Of the recorded cases in batches, these run in `make test`: together they run every line of the code that all of them
# run. The others run in `make variants`.
OFTEN_TOGETHER = (
    *range(100), 103, 105, 106, 113, 116, 119, 121, 130, 148, 155, 157, 163, 171, 172, 182, 205, 216, 217, 220, 233,
    255, 259, 280, 281, 306, 309, 311, 318, 325, 332,
)  # fmt: skip
CHAINS = json.loads((Path(__file__).parents[4] / "golden" / "converters" / "golden.json").read_text())["transforms"]


def parts(numbers, *marks):
    """Fifty cases for each test."""
    return [pytest.param(numbers[at : at + 50], marks=marks) for at in range(0, len(numbers), 50)]


@pytest.mark.parametrize("numbers", parts(range(RECORDED)), ids=min)
def test_results_equal_javas(numbers):
    found = {n: differences(case(0, n), json.loads(ANSWERS[n])) for n in numbers}
    assert {n: said for n, said in found.items() if said} == {}


def test_results_that_differed_before_equal_javas():
    assert len(ANSWERS) == RECORDED + len(MENDED)
    found = [differences(case(*one), json.loads(said)) for one, said in zip(MENDED, ANSWERS[RECORDED:], strict=True)]
    assert found == [[] for _ in MENDED]


@pytest.mark.parametrize("numbers", [
    *parts(OFTEN_TOGETHER), *parts(sorted({*range(RECORDED_TOGETHER)} - {*OFTEN_TOGETHER}), pytest.mark.nightly),
], ids=min)
def test_results_do_not_depend_on_the_other_records_of_a_batch(numbers):
    """Java's are of each record alone."""
    found = {n: differences(batch_case(0, n), json.loads(TOGETHER[n]), together=True) for n in numbers}
    assert {n: said for n, said in found.items() if said} == {}


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


# ---------------------------------------------------------------- tests/golden/converters
def converter(config):
    found = JsonConverter()
    found.configure(config, is_key=False)
    return found


def name(case):
    return json.dumps([case.get("config"), case.get("transforms"), case.get("text", case.get("data"))])[:150]


@pytest.mark.parametrize("case", CHAINS, ids=name)
def test_transforms_equal_javas(case):
    chain = {f"transforms.t{i}.{key}": value for i, one in enumerate(case["transforms"]) for key, value in one.items()}
    aliases = ",".join(f"t{i}" for i in range(len(case["transforms"])))
    config = {"value.converter": JSON, **{f"value.converter.{k}": v for k, v in case["config"].items()}}
    pipeline = SinkPipeline(worker(), {**config, **chain, "transforms": aliases})
    raw = raw_batch(
        [case["text"] if case["text"] is None else case["text"].encode()], offset=17, timestamp=1700000000000
    )
    writer = converter(case["config"])
    if case.get("error"):
        with pytest.raises(DataError):
            converted(pipeline, "t", 3, raw)
        return
    batch = converted(pipeline, "t", 3, raw)
    value, metadata = batch.column("value"), batch.schema.field("value").metadata
    written = writer.from_connect("t", value, metadata)[0].as_py()
    assert (written and written.decode()) == case["written"]
    if "Date" not in case["value"] if case["value"] else True:
        shown = to_texts(value, metadata)[0].as_py()
        assert shown == case["value"]
