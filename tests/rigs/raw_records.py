"""Records to convert."""

import numpy as np
import pyarrow as pa

from spark_tasks.data.columns import HEADERS_TYPE, RAW_SCHEMA

CONNECT = "org.apache.kafka.connect."
STRING = CONNECT + "storage.StringConverter"
JSON = CONNECT + "json.JsonConverter"


def worker(**more):
    return {"key.converter": STRING, "value.converter": STRING, **more}


def raw_batch(values, *, offset=0, timestamp=1000, keys=None, headers=None):
    size = len(values)
    return pa.RecordBatch.from_arrays(
        [
            pa.array(np.arange(offset, offset + size)),
            pa.array(np.full(size, timestamp, np.int64)),
            pa.array(keys or [None] * size, pa.binary()),
            pa.array(values, pa.binary()),
            pa.array(headers or [None] * size, HEADERS_TYPE),
        ],
        schema=RAW_SCHEMA,
    )


def converted(pipeline, topic, partition, raw):
    """The records of a batch that all have one schema."""
    [batch] = pipeline.to_connect_batches(topic, partition, raw)
    return batch
