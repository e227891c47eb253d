"""The `verify` sink, which checks that all records of `datagen` arrive once and in order."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType
from typing_extensions import override

from spark_tasks.config.definition import ConfigDef, ConfigKey, Importance, NonEmpty, Type
from spark_tasks.config.types import parse_type
from spark_tasks.connectors.intervals import Interval, SequenceSummary
from spark_tasks.data.columns import is_json
from spark_tasks.errors import DataError
from spark_tasks.pipeline.converters.json_columns import parse_columns
from spark_tasks.plugins.api import Options, SinkConnector
from spark_tasks.process import code_folders

_TASK = "verify.task"


class VerifySinkConnector(SinkConnector):
    """Writes a summary for each task, `task-<n>.json` in the folder `path`: the number of records, duplicates, missing
    numbers and disordered runs, in total and by stream. It is written when a batch is committed, before its offsets.
    `read_summary` merges the summaries of all tasks.
    """

    version = "0.1.0"
    config_def = ConfigDef(
        ConfigKey(
            "path", Type.STRING, validator=NonEmpty(), importance=Importance.HIGH, doc="The folder for summaries.",
        ),
        ConfigKey("stream.field", Type.STRING, default="stream", doc="The field with the stream's number."),
        ConfigKey("sequence.field", Type.STRING, default="sequence", doc="The field with the record's number."),
    )  # fmt: skip

    @classmethod
    @override
    def validate(cls, config: Options) -> Mapping[str, Sequence[str]]:
        return code_folders.mistakes("path", parse_type("path", config.get("path"), Type.STRING))

    @override
    def task_configs(self, max_tasks: int) -> Sequence[Options]:
        return [{**self.config, _TASK: str(task)} for task in range(max_tasks)]

    @classmethod
    @override
    def data_source(cls, options: Options) -> DataSource:
        return VerifyData(dict(options))

    @classmethod
    @override
    def alter_offsets(cls, config: Options, offsets: Mapping[tuple[str, int], int | None]) -> bool:
        """Accepts any offsets. Records that are read again count as duplicates."""
        return True


class VerifyData(DataSource):  # type: ignore[misc]  # PySpark has no types
    """A folder of summaries."""

    @classmethod
    @override
    def name(cls) -> str:
        return "verify"

    @override
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        parsed = VerifySinkConnector.config_def.parse(dict(self.options))
        file = summary_file(parsed["path"], int(self.options.get(_TASK, "0")))
        return VerifyWriter(str(file), parsed["stream.field"], parsed["sequence.field"])


@dataclass
class Runs(WriterCommitMessage):  # type: ignore[misc]  # PySpark has no types
    """The commit message of one split: runs of consecutive numbers with their streams, in the order of arrival."""

    runs: list[tuple[int, Interval]]


class VerifyWriter(DataSourceArrowWriter):  # type: ignore[misc]  # PySpark has no types
    """Reduces the records of a split to runs of numbers in `write`, and adds them to the summary in `commit`."""

    def __init__(self, file: str, stream: str, sequence: str) -> None:
        self._file = file
        self._stream = stream
        self._sequence = sequence

    @override
    def write(self, iterator: Iterator[pa.RecordBatch]) -> Runs:
        runs: list[tuple[int, Interval]] = []
        for batch in iterator:
            for stream, (first, last) in self._runs(batch):
                if runs and runs[-1][0] == stream and runs[-1][1][1] + 1 == first:
                    runs[-1] = (stream, (runs[-1][1][0], last))
                else:
                    runs.append((stream, (first, last)))
        return Runs(runs)

    def _runs(self, batch: pa.RecordBatch) -> Iterator[tuple[int, Interval]]:
        value = batch.column("value")
        if is_json(batch.schema.field("value").metadata) or pa.types.is_string(value.type):
            value, _ = parse_columns(value.cast(pa.binary()))
        if not pa.types.is_struct(value.type) or value.type.get_field_index(self._sequence) < 0:
            raise DataError(f"the value of a record has no field {self._sequence}: {value[0].as_py()!r}")
        streams = pc.struct_field(value, self._stream).to_numpy(zero_copy_only=False)
        sequences = pc.struct_field(value, self._sequence).to_numpy(zero_copy_only=False)
        for stream in dict.fromkeys(streams.tolist()):
            numbers = sequences[streams == stream]
            ends = np.flatnonzero(np.diff(numbers) != 1)
            begins = np.concatenate(([0], ends + 1))
            for begin, end in zip(begins, np.append(ends, len(numbers) - 1), strict=True):
                yield int(stream), (int(numbers[begin]), int(numbers[end]))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Adds a version of the summary. If another worker has added it in the meantime, the next one is based on that:
        a worker that was suspended and has lost its task may write at the same time as the new one. A lock would make
        the new one wait for the suspended one.
        """
        path = Path(self._file)
        code_folders.check(self._file, code_folders.of_plugins())  # runs on the worker
        path.parent.mkdir(parents=True, exist_ok=True)
        hidden = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}.tmp")
        number, added = 0, False
        while not added:
            number, summary = _newest(path)
            for message in messages:
                if isinstance(message, Runs):
                    summary = summary.after(message.runs)
            hidden.write_text(json.dumps(summary.to_json(), indent=1))
            added = _add(hidden, path, number + 1)
        os.replace(hidden, path)  # noqa: PTH105
        for older, file in _versions(path).items():
            if older <= number:
                file.unlink(missing_ok=True)


def summary_file(folder: str, task: int) -> Path:
    """Returns the path of a task's summary. `read_summary` also finds a newer one that does not have this name yet."""
    return Path(folder) / f"task-{task}.json"


def _prefix(path: Path) -> str:
    return f".{path.name}.v"


def _versions(path: Path) -> dict[int, Path]:
    """Returns the versions of a summary by number; the highest counts."""
    prefix = _prefix(path)
    return {int(file.name.removeprefix(prefix)): file for file in path.parent.glob(f"{prefix}*")}


def _add(content: Path, path: Path, number: int) -> bool:
    """Adds a version. Returns False if it exists, or has been replaced by a newer one and deleted."""
    version = path.with_name(f"{_prefix(path)}{number}")
    try:
        os.link(content, version)
    except FileExistsError:
        return False
    if max(_versions(path)) > number:
        version.unlink()
        return False
    return True


def _newest(path: Path) -> tuple[int, SequenceSummary]:
    """Returns the newest version and its number; 0 and an empty summary if there is none."""
    while versions := _versions(path):
        number = max(versions)
        with suppress(FileNotFoundError):  # replaced by a newer one since
            return number, SequenceSummary.from_json(json.loads(versions[number].read_text()))
    return 0, SequenceSummary()


def read_summary(folder: str | Path) -> SequenceSummary:
    """Merges the summaries of all tasks. Records that arrived at two tasks count as duplicates."""
    summary = SequenceSummary()
    for path in sorted(Path(folder).glob("task-*.json")):
        summary = summary.joined(_newest(path)[1])
    return summary
