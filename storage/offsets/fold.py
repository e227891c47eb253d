"""The source offsets in an offsets topic as a pure fold, and the records to write so that Java finds them as well.

Java looks up offsets, and compaction keeps them, by the bytes of the key. One source partition can have several keys on
the topic (with fields in another order); the newest record counts, and the next write leaves only one key.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from storage.ids import ConnectorName
from storage.log.record import KeyValue, LogRecord, shown
from storage.offsets.records import Identity, identity, offset_key, offset_value, parse_key, parse_value

_logger = logging.getLogger(__name__)

Partition = Mapping[str, Any]
Offset = Mapping[str, Any]


class KeyedValue(NamedTuple):
    """A record; `written`: its timestamp and offset."""

    key: bytes
    value: bytes | None
    written: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Stored:
    """One source partition, with the records of all keys that mean it: the last one of each key in each of the topic's
    partitions. (A key is in several if partitions were added to the topic.)

    Records in different partitions of the topic are ordered by their timestamps, so that the result does not depend on
    the order in which the partitions are read.
    """

    partition: Partition
    records: Mapping[tuple[bytes, int], KeyedValue]

    @property
    def versions(self) -> Iterable[KeyedValue]:
        """The newest record of each key."""
        return {record.key: record for record in sorted(self.records.values(), key=lambda r: r.written)}.values()

    @property
    def current(self) -> KeyedValue:
        """The newest record that has a value, else the newest one."""
        return max(self.versions, key=lambda s: (s.value is not None, s.written))


@dataclass(frozen=True, slots=True)
class OffsetState:
    """A snapshot of an offsets topic. The mappings are never modified."""

    connectors: Mapping[ConnectorName, Mapping[Identity, Stored]] = field(default_factory=dict)

    def offsets(self, connector: ConnectorName) -> dict[Identity, tuple[Partition, Offset]]:
        """All partitions that have an offset."""
        found = {}
        for name, stored in self.connectors.get(connector, {}).items():
            offset = _offset(connector, stored)
            if offset is not None:
                found[name] = (stored.partition, offset)
        return found

    def partitions(self, connector: ConnectorName) -> list[Partition]:
        """All partitions with a value, even one that cannot be read: those that a reset has to clear."""
        return [s.partition for s in self.connectors.get(connector, {}).values() if s.current.value is not None]


def fold(state: OffsetState, records: Iterable[LogRecord]) -> OffsetState:
    """Applies records to the state."""
    connectors = dict(state.connectors)
    own: dict[ConnectorName, dict[Identity, Stored]] = {}  # what has been copied, once per call
    own_records: dict[tuple[ConnectorName, Identity], dict[tuple[bytes, int], KeyedValue]] = {}
    for record in records:
        try:
            key = parse_key(record.key)
        except Exception as error:  # noqa: BLE001 - no record may stop the reader
            _logger.warning("Skipping an offset %s: %s", record, shown(error))
            continue
        if key.connector not in own:
            own[key.connector] = dict(connectors.get(key.connector, {}))
            connectors[key.connector] = own[key.connector]
        where = key.connector, key.identity
        if where not in own_records:
            known = own[key.connector].get(key.identity, Stored(key.partition, {}))
            own_records[where] = dict(known.records)
            own[key.connector][key.identity] = Stored(known.partition, own_records[where])
        new = KeyedValue(record.key or b"", record.value, (record.timestamp, record.offset))
        own_records[where][new.key, record.partition] = new
    return OffsetState(connectors)


def records_for(
    state: OffsetState, connector: ConnectorName, offsets: Sequence[tuple[Partition, Offset | None]]
) -> list[KeyValue]:
    """The records that set these offsets (None: remove), with the key bytes that are on the topic, if any.

    Raises TypeError for what JSON cannot express.
    """
    known = state.connectors.get(connector, {})
    wanted = {identity(partition): (partition, offset) for partition, offset in offsets}  # the last one counts
    records: list[KeyValue] = []
    for name, (partition, offset) in wanted.items():
        stored = known.get(name)
        key = stored.current.key if stored is not None else offset_key(connector, partition)
        others = stored.versions if stored is not None else ()
        records += [(other.key, None) for other in others if other.key != key and other.value is not None]
        records.append((key, offset_value(offset)))
    return records


def merge(worker: OffsetState, own: OffsetState, connector: ConnectorName) -> list[tuple[Partition, Offset]]:
    """The offsets of a connector with its own topic, which takes precedence over the worker's topic (KIP-618)."""
    return list({**worker.offsets(connector), **own.offsets(connector)}.values())


def _offset(connector: ConnectorName, stored: Stored) -> Offset | None:
    value = stored.current.value
    if value is None:
        return None
    try:
        return parse_value(value)
    except ValueError as error:
        where = shown(stored.partition)
        _logger.error("Could not read the offset of %s for %s: %s", shown(connector), where, shown(error))  # noqa: TRY400
        return None
