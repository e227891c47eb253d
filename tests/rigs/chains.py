"""Configurations of chains of transforms, and sinks that run them."""

from __future__ import annotations

from spark_tasks.pipeline.sink_pipeline import SinkPipeline
from tests.rigs.raw_records import JSON, raw_batch, worker

T = "org.apache.kafka.connect.transforms."
SCHEMALESS = {"value.converter": JSON, "value.converter.schemas.enable": "false"}


def chain(*steps, **more):
    config = {"transforms": ",".join(f"t{i}" for i in range(len(steps)))}
    for i, (name, options) in enumerate(steps):
        config[f"transforms.t{i}.type"] = T + name
        config |= {f"transforms.t{i}.{key}": value for key, value in options.items()}
    return {**SCHEMALESS, **config, **more}


def sink(config, values, **more):
    return list(SinkPipeline(worker(), config).to_connect_batches("t", 3, raw_batch(values, **more)))


def rows(batches, column="value"):
    return [value for batch in batches for value in batch.column(column).to_pylist()]
