"""Reads the rows of the files connector's reader."""

from __future__ import annotations

import pickle

from spark_tasks.connectors.files.connector import FilesSourceConnector


def reader_of(folder, **options):
    config = {"path": str(folder), "topic": "t", **{k.replace("_", "."): v for k, v in options.items()}}
    return FilesSourceConnector.data_source(config).streamReader(None)


def rows_of(reader, start, end):
    reader = pickle.loads(pickle.dumps(reader))
    return [
        row
        for part in reader.partitions(start, end)
        for batch in reader.read(part)
        for row in batch["value"].to_pylist()
    ]


def all_rows(reader):
    start = reader.initialOffset()
    return rows_of(reader, start, reader.latestOffset(start))
