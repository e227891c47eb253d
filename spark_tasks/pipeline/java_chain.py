"""Pipelines of Python connectors that run partly in the Java plugin host, for executors on its machine."""

from __future__ import annotations

import json
import operator
import socket
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
from typing_extensions import override

from spark_tasks.data.columns import RAW_SCHEMA
from spark_tasks.data.host_records import described, schema_text
from spark_tasks.data.schema import to_text
from spark_tasks.errors import ConfigError, ConnectError, DataError, PermanentError
from spark_tasks.host_frames import (
    BATCH,
    Batch,
    HostGoneError,
    batch,
    chain_records,
    message,
    received_frame,
    records,
    thrown_text,
)
from spark_tasks.metrics.phases import phase
from spark_tasks.pipeline.converters.base import BadRowsError, Column, rows_by_code, schema_of
from spark_tasks.pipeline.errors.failures import FailedStage, StageFailedError
from spark_tasks.pipeline.handover import from_json, to_json
from spark_tasks.pipeline.sink_pipeline import NONE_KNOWN, Known, SinkPipeline, each_part, taken
from spark_tasks.pipeline.source_pipeline import RawBatch, SourcePipeline
from spark_tasks.plugins.chain_cut import Cut, with_converters
from spark_tasks.plugins.kinds import PluginNotFoundError
from spark_tasks.process.close_on_fork import close_on_fork

FRAME_BYTES: Final = 2 << 20  # one record may be larger
_MAX_CONNECTIONS: Final = 16  # that a process keeps open


class JavaStageError(DataError):
    """An exception of a Java plugin about a record. Dead letters have its class, message and stack trace."""

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> JavaStageError:
        """Returns the error that the host's response describes."""
        error = cls(fields["message"] or "")
        error.java_class, error.java_message = str(fields["class"]), fields["message"]
        error.add_note(str(fields.get("trace", "")))
        return error


class JavaPart:
    """The part of a chain that the host runs. `folder`: that of the host; the worker sets it when a host starts."""

    def __init__(self, kind: str, name: str, task: int, lease: str, connector: Mapping[str, str], cut: Cut) -> None:
        """`kind`: "sink" or "source". `lease`: see LeaseSession.java. `connector`: the connector's configuration, which
        includes the worker's converters.
        """
        self.folder = ""
        self.converted = cut.converted
        self._request = {"op": "chain", "kind": kind, "name": name, "task": task, "lease": lease,
                       "connector": cut.for_far(connector), "converted": sorted(cut.converted)}

    def run(self, frame: bytes) -> Batch:
        """Runs the plugins on the records of a frame and returns the results. Raises StageFailedError for records that
        a plugin cannot process, HostGoneError if the host has ended, and ConnectError for other exceptions of plugins.
        """
        key = (self.folder, json.dumps(self._request, sort_keys=True))
        try:
            answer = _connection(key).request(frame)
        except BaseException:
            if (broken := OPEN.pop(key, None)) is not None:
                broken.close()
            raise
        _raise_bad(answer.meta["errors"])
        return answer


OPEN: Final[OrderedDict[tuple[str, str], _Connection]] = OrderedDict()
"""The connections of this process by folder and request, the least recently used first."""


def _connection(key: tuple[str, str]) -> _Connection:
    connection = OPEN.pop(key, None) or _Connection(*key)
    OPEN[key] = connection
    while len(OPEN) > _MAX_CONNECTIONS:
        OPEN.popitem(last=False)[1].close()
    return connection


class _Connection:
    """A connection to the host for one task's part of a chain."""

    def __init__(self, folder: str, request: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        close_on_fork(self._socket)
        try:
            secret = (Path(folder) / "secret").read_text()
            self._socket.connect(str(Path(folder) / "socket"))
            self._socket.sendall(message(0, {"op": "hello", "secret": secret}))
            self._socket.sendall(message(0, json.loads(request)))
        except OSError as error:
            self._socket.close()
            raise HostGoneError(f"The Java plugin host is not available: {error}") from error
        self.close = self._socket.close

    def request(self, frame: bytes) -> Batch:
        try:
            self._socket.sendall(frame)
            while True:
                kind, number, body = received_frame(self._socket)
                if kind == BATCH:
                    return batch(number, body)
                content = json.loads(bytes(body))
                if content.get("op") == "failed":
                    text = f"{thrown_text(content)}\n{content.get('trace', '')}"
                    raise (PermanentError if content.get("permanent") is True else ConnectError)(text.rstrip())
        except OSError as error:
            raise HostGoneError(f"The Java plugin host has ended: {error}") from error


def _rows_per_frame(records: pa.RecordBatch) -> int:
    """Returns the number of records for one frame. The limit bounds the memory in the JVM that all tasks share."""
    size = int(records.nbytes)
    return max(1, min(len(records), len(records) * FRAME_BYTES // max(size, 1)))


def _raise_bad(errors: Sequence[Mapping[str, Any]]) -> None:
    """Raises StageFailedError with the bad records of the first stage and class. The other errors occur again when the
    remaining records are retried.
    """
    if not errors:
        return
    stage, executing = errors[0]["stage"], errors[0]["executing"]
    bad = [(int(error["row"]), JavaStageError.of(error)) for error in errors
           if (error["stage"], error["executing"]) == (stage, executing)]
    words = f"{executing} cannot process record {{}}"
    raise StageFailedError(None, FailedStage[stage], executing, BadRowsError(bad), words)


def _by_kind(*columns: np.ndarray[Any, Any]) -> list[np.ndarray[Any, Any]]:
    """Returns the rows in which all columns have the same values, in order."""
    kinds = np.stack(columns, axis=1)
    if (kinds[1:] == kinds[:-1]).all():
        return [np.arange(len(kinds))] if len(kinds) else []
    return rows_by_code(np.unique(kinds, axis=0, return_inverse=True)[1].ravel())


class JavaFirstPipeline(SinkPipeline):
    """The pipeline of a sink. The host runs its first part."""

    def __init__(self, worker: Mapping[str, str], connector: Mapping[str, str], cut: Cut, java: JavaPart) -> None:
        super().__init__(worker, cut.for_near(with_converters(connector, worker)))
        self.java = java

    @override
    def _connect(
        self, topic: str, partition: int, raw: pa.RecordBatch, known: Known = NONE_KNOWN
    ) -> list[pa.RecordBatch]:
        if raw.schema.metadata or not len(raw):  # the host has processed it
            return super()._connect(topic, partition, raw, known)
        size, rows_per_frame = len(raw), _rows_per_frame(raw)
        if rows_per_frame < size:
            frames = (np.arange(begin, min(begin + rows_per_frame, size)) for begin in range(0, size, rows_per_frame))
            return each_part(frames, lambda rows: self._connect(topic, partition, taken(raw, rows)))
        offsets = raw.column("offset")
        first, last = offsets[0].as_py(), offsets[len(raw) - 1].as_py()
        with phase("convert"):
            answer = self.java.run(records(topic, partition, first, last + 1, raw, reset=False))
        results, rows = answer.cut, np.array(answer.meta["rows"], np.int64)
        if results is None:
            raise ConnectError("the Java plugin host sent no schemas")

        def connect(chosen: np.ndarray[Any, Any]) -> list[pa.RecordBatch]:
            one, part = int(chosen[0]), taken(results.raw, chosen)
            part = part.set_column(0, RAW_SCHEMA.field(0), offsets.take(pa.array(rows[chosen])))
            schemas = {name: results.schemas[which[one]] if which[one] >= 0 else None
                       for name, which in (("key", results.key_schema), ("value", results.value_schema))}
            part = part.replace_schema_metadata(described(self.java.converted, schemas))
            topic, partition = results.topics[results.topic[one]], int(results.partition[one])
            return super(JavaFirstPipeline, self)._connect(topic, partition, part)

        try:
            return each_part(
                _by_kind(results.topic, results.partition, results.key_schema, results.value_schema), connect)
        except StageFailedError as failed:
            failed.move(lambda row: int(rows[row]))
            raise

    @override
    def _read(self, part: str, topic: str, raw: pa.RecordBatch, known: Known = NONE_KNOWN) -> Column:
        if part not in self.java.converted:
            return super()._read(part, topic, raw, known)
        array = raw.column(part)
        if array.null_count == len(array):
            return pa.nulls(len(array)), {}
        return from_json(array, schema_text(raw, part))


class JavaLastPipeline(SourcePipeline):
    """The pipeline of a source. The host runs its last part."""

    def __init__(
        self, worker: Mapping[str, str], connector: Mapping[str, str], cut: Cut, java: JavaPart, *, rows: bool
    ) -> None:
        whole = with_converters(connector, worker)
        super().__init__(worker, cut.for_near(whole), rows=rows)
        self.java = java
        self._for_letters = SourcePipeline(worker, {**whole, "transforms": "", "predicates": ""}, rows=rows)

    @override
    def original(self, batch: pa.RecordBatch, row: int) -> RawBatch:
        """As the connector's converters write it, even if the host has to convert all other records; as JSON only if a
        converter is in no other place than a jar.
        """
        try:
            self._for_letters.stages  # noqa: B018 - creates them
        except (PluginNotFoundError, ConfigError):
            return super().original(batch, row)
        return self._for_letters.original(batch, row)

    @override
    def _raws(self, topic: str, batch: pa.RecordBatch) -> Iterator[RawBatch]:
        rows_per_frame = _rows_per_frame(batch)
        for begin in range(0, len(batch), rows_per_frame):
            try:
                yield from self._sent(topic, batch.slice(begin, rows_per_frame))
            except StageFailedError as failed:
                failed.move(partial(operator.add, begin))
                raise

    def _sent(self, topic: str, batch: pa.RecordBatch) -> Iterator[RawBatch]:
        with phase("convert"):
            _, partitions, raw = self._raw(topic, batch)
            schemas: dict[str, str | None] = {}
            for part in self.java.converted & set(batch.schema.names):
                schema = schema_of(batch.schema.field(part).metadata)
                schemas[part] = None if schema is None else to_text(schema)
            answer = self.java.run(chain_records(topic, partitions, raw, schemas, self.java.converted))
        for number, name in enumerate(answer.topics):
            rows = np.flatnonzero(answer.topic == number)
            chosen = answer.partition[rows]
            places = None if (chosen == -1).all() else pa.array(chosen, mask=chosen < 0)
            yield name, places, answer.raw.take(pa.array(rows))

    @override
    def _write(self, part: str, topic: str, batch: pa.RecordBatch, headers: pa.Array) -> tuple[pa.Array, pa.Array]:
        if part not in self.java.converted or part not in batch.schema.names:
            return super()._write(part, topic, batch, headers)
        found, _ = to_json(batch.column(part), batch.schema.field(part).metadata)
        return found, headers
