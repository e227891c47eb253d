"""StringConverter writes headers as Java's does (golden/converters/HeaderTexts.java); lines have the same texts."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path

import pytest

from spark_tasks.connectors.lines import to_lines
from spark_tasks.pipeline.sink_pipeline import SinkPipeline
from tests.rigs.raw_records import JSON, raw_batch, worker

STRING = "org.apache.kafka.connect.storage.StringConverter"
T = "org.apache.kafka.connect.transforms."
LINES = (Path(__file__).parents[4] / "golden/converters/header_texts.jsonl").read_text().splitlines()
CASES = [json.loads(line) for line in LINES]
HEADER = {"transforms": "h", "transforms.h.type": T + "HeaderFrom$Value", "transforms.h.fields": "f",
          "transforms.h.headers": "h", "transforms.h.operation": "copy"}  # fmt: skip
FIELD = {"transforms": "e", "transforms.e.type": T + "ExtractField$Value", "transforms.e.field": "f"}


def one(case, transforms):
    schemas = str(case["schemas"]).lower()
    config = {"value.converter": JSON, "value.converter.schemas.enable": schemas, "header.converter": STRING}
    pipeline = SinkPipeline(worker(), {**config, **transforms})
    [batch] = pipeline.to_connect_batches("t", 0, raw_batch([case["value"].encode()]))
    return batch


@pytest.mark.parametrize("first", range(0, len(CASES), 20))
def test_header_texts_equal_javas(first):
    for case in CASES[first : first + 20]:
        [[header]] = one(case, HEADER).column("headers").to_pylist()
        found = None if header["value"] is None else header["value"].decode()
        assert found == case["text"], case["value"]


@pytest.mark.parametrize("first", range(0, len(CASES), 20))
def test_lines_of_the_file_sink_equal_header_texts(first):
    for case in CASES[first : first + 20]:
        batch = one(case, FIELD)
        line = to_lines(batch.column("value"), batch.schema.field("value").metadata).to_pybytes().decode()
        assert line == f"{'null' if case['text'] is None else case['text']}\n", case["value"]


@pytest.mark.parametrize(("value", "text"), [
    (datetime(2024, 2, 29, 1, 2, 3, 4000, tzinfo=UTC), "Thu Feb 29 01:02:03 UTC 2024"),
    (date(1970, 1, 1), "Thu Jan 01 00:00:00 UTC 1970"), (time(1, 2, 3), "Thu Jan 01 01:02:03 UTC 1970"),
    (Decimal("1E-7"), "1E-7"), (Decimal("0.10"), "0.10"),
    ({"a": [1, None, True]}, "{a=[1, null, true]}"), (1e7, "1.0E7"),
])  # fmt: skip
def test_values_of_python_transforms_are_written_as_java_texts(value, text):
    converter = SinkPipeline(worker(), {"header.converter": STRING}).stages.header
    assert converter.from_connect_header("t", "h", None, value) == text.encode()
