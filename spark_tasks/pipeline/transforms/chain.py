"""Applies the transforms of a connector in order, each with its predicate. The order of records remains."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_tasks.config.connector_keys import aliases
from spark_tasks.config.definition import Type, parse_type
from spark_tasks.data.columns import CONNECT_COLUMNS
from spark_tasks.errors import ConfigError, ConnectError, DataError, message_of, text_of
from spark_tasks.pipeline.converters.base import BadRowError, BadRowsError
from spark_tasks.pipeline.errors.failures import FailedStage, StageFailedError, StageOutageError, bad_rows, reason_of
from spark_tasks.pipeline.errors.outages import is_of_machine, is_outage
from spark_tasks.pipeline.transforms.base import Predicate, Transform
from spark_tasks.pipeline.transforms.columns_or_rows import ColumnsOrRows, joined
from spark_tasks.pipeline.transforms.header_values import HeaderWriter, UnwritableHeaderError
from spark_tasks.pipeline.transforms.mask_field import MaskField
from spark_tasks.pipeline.transforms.scales import SettledScales
from spark_tasks.plugins import Kind, Plugin, Plugins


class TransformError(DataError):
    """A stage cannot change a record. `alias`, `class_name`: those of the stage. `record`: a batch with only this
    record, as the stage received it, None if the record is unknown. `row`: its row in the stage's batch.
    """

    def __init__(
        self, alias: str, class_name: str, reason: object, record: pa.RecordBatch | None, row: int | None = None
    ) -> None:
        self.alias, self.class_name, self.record = alias, class_name, record
        self._row = row
        self._place: list[Callable[[int], int] | None] = []
        super().__init__(f"transforms.{alias} ({class_name}) cannot transform {_place(record)}: {reason}")


    @property
    def part(self) -> StageFailedError:
        """The same error, for a caller that tries parts of a batch. It names all bad rows that the transform has named,
        unless their errors are those of headers.
        """
        reason = reason_of(self.__cause__) if isinstance(self.__cause__, Exception) else self
        bad = [one for one in bad_rows(self.__cause__) if not isinstance(reason_of(one[1]), UnwritableHeaderError)]
        kind, class_name = FailedStage.TRANSFORMATION, self.class_name
        words = f"transforms.{self.alias} ({class_name}) cannot transform record {{}}"
        if isinstance(reason, UnwritableHeaderError):
            kind, class_name = FailedStage.HEADER_CONVERTER, reason.class_name
            words = f"header {reason.header} of record {{}} cannot be written by {class_name}"
            reason, bad = reason.reason, []
        failed = StageFailedError(self._row, kind, class_name, BadRowsError(bad) if bad else reason, words)
        for place in self._place:
            failed.move(place)
        return failed

    def move(self, place: Callable[[int], int] | None) -> None:
        """Replaces the row by that of a larger batch, `place(row)`. `place` None: it is unknown there."""
        self._place.append(place)


def _place(record: pa.RecordBatch | None) -> str:
    if record is None:
        return "a batch"
    names = [name for name in ("topic", "partition", "offset") if name in record.schema.names]
    position = {name: record.column(name)[0].as_py() for name in names}
    topic, partition = position.get("topic"), position.get("partition")
    parts = [topic if partition is None else f"{topic}-{partition}"]
    parts += [f"offset {position['offset']}"] if position.get("offset") is not None else []
    return "record " + ", ".join(part for part in parts if part) if any(parts) else "a record"


@dataclass(frozen=True, slots=True)
class Stage:
    """A transform for the records that `predicate` selects, with `negate` for all others. `class_name`: as in REST."""

    alias: str
    class_name: str
    transform: Transform
    predicate: Predicate | None = None
    negate: bool = False

    def apply(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yields the batch with the selected records changed, in the order of records. Raises TransformError."""
        if self.predicate is None:
            yield from self._changed(batch)
            return
        chosen = self.selected(batch, self.predicate)
        if chosen.true_count == len(batch):
            yield from self._changed(batch)
        elif chosen.true_count == 0:
            yield batch
        else:
            yield from self._mixed(batch, chosen)

    def selected(self, batch: pa.RecordBatch, predicate: Predicate) -> pa.BooleanArray:
        """Returns for each record whether the stage's predicate, or with `negate` its opposite, selects it. Raises
        TransformError.
        """
        try:
            chosen = _tested(predicate, batch)
        except Exception as error:  # plugin code
            if is_of_machine(error):
                raise
            raise self._error(batch, error, partial(_tested, predicate)) from error
        return pc.invert(chosen) if self.negate else chosen

    def _mixed(self, batch: pa.RecordBatch, chosen: pa.BooleanArray) -> Iterator[pa.RecordBatch]:
        """Changes all selected records at once, then merges them with the others in the original order."""
        if self.transform.adds_records:
            yield from self._by_runs(batch, chosen)
            return
        try:
            changed = list(self._changed(batch.filter(chosen)))
        except TransformError as error:
            places = np.flatnonzero(chosen.to_numpy(zero_copy_only=False))
            error.move(lambda row: int(places[row]))
            raise
        others = batch.filter(pc.invert(chosen))
        if not changed:
            yield others
        elif sum(map(len, changed)) != chosen.true_count:  # some were dropped or added; which ones is unknown
            yield from self._by_runs(batch, chosen)
        elif len(changed) == 1 and changed[0].schema.equals(others.schema, check_metadata=True):
            flags = chosen.to_numpy(zero_copy_only=False)
            places = np.where(flags, np.cumsum(flags) - 1, np.cumsum(~flags) - 1 + len(changed[0]))
            yield pa.concat_batches([changed[0], others]).take(pa.array(places))
        else:
            yield from _interleaved(changed, others, chosen)

    def _by_runs(self, batch: pa.RecordBatch, chosen: pa.BooleanArray) -> Iterator[pa.RecordBatch]:
        for begin, end, is_selected in _runs(chosen):
            piece = batch.slice(begin, end - begin)
            try:
                yield from self._changed(piece) if is_selected else (piece,)
            except TransformError as error:
                error.move(partial(operator.add, begin))
                raise

    def _changed(self, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        try:
            listed = self._applied(batch)
        except Exception as error:  # plugin code
            if is_of_machine(error):
                raise
            raise self._error(batch, error, self._applied) from error
        return [part for part in listed if len(part)]

    def _applied(self, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        return _batches(type(self.transform).__name__, self.transform.apply(batch), batch)

    def _error(self, batch: pa.RecordBatch, error: Exception, failed: Callable[[pa.RecordBatch], object]) -> Exception:
        row = error.row if isinstance(error, BadRowError) else None
        if row is None and not is_outage(error):
            try:
                row = _first_bad(batch, failed)
            except Exception as outage:  # noqa: BLE001 - plugin code
                error = outage
        if is_outage(error):
            reason = message_of(error) or type(error).__name__
            return StageOutageError(f"transforms.{self.alias} ({self.class_name}): {reason}")
        record = None if row is None else batch.slice(row, 1)
        told = message_of(error) if isinstance(error, DataError) else text_of(error)
        return TransformError(self.alias, self.class_name, told, record, row)


def _tested(predicate: Predicate, batch: pa.RecordBatch) -> pa.BooleanArray:
    """Returns for each record whether the predicate is true; null is false. Raises DataError if the predicate, which is
    plugin code, returns anything but a boolean for each record.
    """
    returned: Any = predicate.test(batch)
    if not isinstance(returned, pa.BooleanArray) or len(returned) != len(batch):
        size = f" of {len(returned)} values" if isinstance(returned, Sized) else ""
        raise DataError(f"the predicate {type(predicate).__name__} returned a {type(returned).__name__}{size} for "
                        f"{len(batch)} records; return a pyarrow.BooleanArray with a value for each record")
    return pc.fill_null(returned, False) if returned.null_count else returned


def _batches(name: str, returned: Any, given: pa.RecordBatch) -> list[pa.RecordBatch]:
    """Returns what a transform, which is plugin code, returned for a batch. Raises DataError unless it is batches."""
    if isinstance(returned, pa.RecordBatch):
        listed = [returned]
    elif isinstance(returned, Iterable) and not isinstance(returned, pa.Table | Mapping | str | bytes):
        listed = list(returned)
    else:
        raise DataError(f"{name} returned a {type(returned).__name__}; return a pyarrow.RecordBatch or a list of them")
    for one in listed:
        if not isinstance(one, pa.RecordBatch):
            what = f"a {type(returned).__name__} with an element of type {type(one).__name__}"
            raise DataError(f"{name} returned {what}; return a pyarrow.RecordBatch or a list of them")
        if one.schema.names != given.schema.names:
            _check_columns(name, one.schema.names, given.schema.names)
        if _without_topic(one) and not _without_topic(given):
            raise DataError(f"{name} returned a record whose topic is null; set a topic, or drop the record")
    return listed


def _without_topic(batch: pa.RecordBatch) -> bool:
    return "topic" in batch.schema.names and batch.column("topic").null_count > 0


def _check_columns(name: str, returned: list[str], given: list[str]) -> None:
    """Raises DataError unless the columns are those of records: keys or values in others would be lost."""
    needed = given if "offset" in given else ["value"]  # records of a source may lack all others
    wrong = {
        "doubled": [column for column in dict.fromkeys(returned) if returned.count(column) > 1],
        "unknown": [column for column in dict.fromkeys(returned) if column not in {*CONNECT_COLUMNS, *given}],
        "missing": [column for column in needed if column in given and column not in returned],
    }
    if any(wrong.values()):
        words = "; ".join(f"{what}: {', '.join(columns)}" for what, columns in wrong.items() if columns)
        raise DataError(f"{name} returned a batch with the columns {', '.join(returned)} ({words}); return the columns "
                        f"{', '.join(given)}")


def _first_bad(batch: pa.RecordBatch, failed: Callable[[pa.RecordBatch], object]) -> int | None:
    """Returns the first row with which `failed` fails, by bisection, or None if it succeeds with each half.
    Raises the error of an outage.
    """
    if len(batch) <= 1:
        return 0 if len(batch) else None
    half = len(batch) // 2
    for begin, piece in ((0, batch.slice(0, half)), (half, batch.slice(half))):
        try:
            failed(piece)
        except BadRowError as error:
            return begin + error.row
        except Exception as error:  # plugin code
            if is_outage(error) or is_of_machine(error):
                raise
            row = _first_bad(piece, failed)
            return None if row is None else begin + row
    return None


def _runs(chosen: pa.BooleanArray) -> Iterator[tuple[int, int, bool]]:
    flags = chosen.to_numpy(zero_copy_only=False)
    ends = [*(np.flatnonzero(flags[1:] != flags[:-1]) + 1).tolist(), len(flags)]
    begin = 0
    for end in ends:
        yield begin, end, bool(flags[begin])
        begin = end


def _interleaved(
    changed: list[pa.RecordBatch], others: pa.RecordBatch, chosen: pa.BooleanArray
) -> Iterator[pa.RecordBatch]:
    """Yields the records of both in their original order, in runs."""
    left, at = list(changed), 0
    for begin, end, mine in _runs(chosen):
        size = end - begin
        if not mine:
            yield others.slice(at, size)
            at += size
        while mine and size:
            piece = left[0].slice(0, size)
            yield piece
            size -= len(piece)
            left[0] = left[0].slice(len(piece))
            if not len(left[0]):
                left.pop(0)


class Chain:
    """The stages of a connector. `reads`: the columns whose values and schemas heeler's own transforms read."""

    def __init__(self, stages: Iterable[Stage] = ()) -> None:
        self.stages = tuple(stages)
        self.reads = frozenset(name for stage in self.stages if isinstance(stage.transform, ColumnsOrRows)
                               for name in stage.transform.reads)
        masking = [stage for stage in self.stages if isinstance(stage.transform, MaskField)]
        self._settling = [Stage(stage.alias, stage.class_name, SettledScales()) for stage in masking[-1:]]

    @property
    def adds_records(self) -> bool:
        """Whether it may make several records from one."""
        return any(stage.transform.adds_records for stage in self.stages)

    def apply(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yields the records after the last stage, in as few batches as possible. Raises TransformError."""
        batches = [batch] if len(batch) else []
        complete = True
        for stage in (*self.stages, *self._settling):
            batches = joined(list(_apply_stage(stage, batches, complete=complete)))
            complete = complete and not stage.transform.adds_records and sum(map(len, batches)) == len(batch)
        yield from batches if self.stages else [batch]


    def settled(self, batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
        """Returns what `apply` makes of the results of the last stage, for a caller that applies each stage itself."""
        for stage in self._settling:
            batches = joined(list(_apply_stage(stage, batches, complete=False)))
        return batches


def _apply_stage(stage: Stage, batches: list[pa.RecordBatch], *, complete: bool) -> Iterator[pa.RecordBatch]:
    """Applies a stage to the batches. `complete`: no earlier stage has dropped or added records, so row
    numbers of the chain's batch are known.
    """
    begin = 0
    for one in batches:
        try:
            yield from stage.apply(one)
        except TransformError as error:
            error.move(partial(operator.add, begin) if complete else None)
            raise
        begin += len(one)


def make_chain(plugins: Plugins, connector: Mapping[str, str], headers: HeaderWriter | None = None) -> Chain:
    """Creates the chain of a connector's configuration. `headers`: writes those that transforms add. Raises
    ConfigError, PluginNotFoundError.
    """
    predicates, writer = dict(_predicates(plugins, connector)), headers or HeaderWriter()
    return Chain(_stage(plugins, connector, alias, predicates, writer) for alias in aliases(connector, "transforms"))


def _properties(connector: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {k.removeprefix(prefix): v for k, v in connector.items() if k.startswith(prefix)}


def _plugin(plugins: Plugins, kind: Kind, properties: dict[str, str]) -> Plugin:
    """Returns the plugin of `type` and `plugin.version`, and removes these keys from the properties."""
    return plugins.find(kind, properties.pop("type", ""), properties.pop("plugin.version", None))


def _configure(one: Transform | Predicate, properties: Mapping[str, str], name: str) -> None:
    """Configures a plugin. Raises ConfigError, or ConnectError for another error of the plugin, with its name."""
    try:
        one.configure(properties)
    except ConfigError as error:
        raise ConfigError(f"{name}: {error}") from error
    except Exception as error:  # plugin code
        if is_outage(error) or isinstance(error, ConnectError):
            raise
        raise ConnectError(f"{name} cannot be configured: {text_of(error)}") from error


def _predicates(plugins: Plugins, connector: Mapping[str, str]) -> Iterator[tuple[str, Predicate]]:
    for alias in aliases(connector, "predicates"):
        properties = _properties(connector, f"predicates.{alias}.")
        plugin = _plugin(plugins, Kind.PREDICATE, properties)
        predicate: Predicate = plugin.cls()
        _configure(predicate, properties, f"predicates.{alias} ({plugin.name})")
        yield alias, predicate


def _stage(
    plugins: Plugins, connector: Mapping[str, str], alias: str, predicates: Mapping[str, Predicate],
    headers: HeaderWriter,
) -> Stage:  # fmt: skip
    properties = _properties(connector, f"transforms.{alias}.")
    plugin = _plugin(plugins, Kind.TRANSFORMATION, properties)
    wanted, negate = properties.pop("predicate", None), properties.pop("negate", "false")
    if wanted is not None and wanted not in predicates:
        raise ConfigError(f"transforms.{alias}.predicate: there is no predicate {wanted!r}; name it in predicates")
    transform: Transform = plugin.cls()
    _configure(transform, properties, f"transforms.{alias} ({plugin.name})")
    transform.header_writer = headers
    predicate = None if wanted is None else predicates[wanted]
    negated = bool(parse_type(f"transforms.{alias}.negate", negate, Type.BOOLEAN))
    return Stage(alias, plugin.name, transform, predicate, negated)
