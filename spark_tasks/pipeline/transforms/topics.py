"""Topics of a batch as a dictionary column, so that work that depends only on the topic is done once per topic."""

from __future__ import annotations

import re
from collections.abc import Callable

import pyarrow as pa

from spark_tasks.errors import DataError
from spark_tasks.java.bounded_match import TOO_SLOW, matches
from spark_tasks.pipeline.transforms.columns_or_rows import put


def topics_of(batch: pa.RecordBatch) -> pa.DictionaryArray:
    """Returns the column `topic`, dictionary-encoded. Raises DataError if there is none."""
    if "topic" not in batch.schema.names:
        raise DataError("the records have no topic")
    topics = batch.column("topic")
    return topics if pa.types.is_dictionary(topics.type) else topics.dictionary_encode()


def topic_matches(pattern: re.Pattern[str], topic: str, key: str) -> bool:
    """Returns whether the whole topic matches the pattern of a configuration key. Raises DataError if that takes too
    long.
    """
    try:
        return matches(pattern, topic)
    except TimeoutError:  # as a cause, it would make this an outage, after which the batch is tried again
        raise DataError(f"with the topic {topic}, {key} {TOO_SLOW}") from None


def renamed(batch: pa.RecordBatch, rename: Callable[[str], str]) -> pa.RecordBatch:
    """Returns the batch with renamed topics."""
    topics = topics_of(batch)
    used = set(topics.indices.unique().to_pylist())
    names = topics.dictionary.to_pylist()
    new = [rename(name) if index in used else name for index, name in enumerate(names)]
    if new == names:
        return batch
    distinct = list(dict.fromkeys(new))
    places = {name: place for place, name in enumerate(distinct)}
    index = pa.array([places[name] for name in new], pa.int32()).take(topics.indices)
    return put(batch, "topic", pa.DictionaryArray.from_arrays(index, pa.array(distinct, pa.string())))
