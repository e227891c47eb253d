"""Finds the classes in jars that are plugins by the headers of the class files: what Kafka Connect's search by
reflection would find, without a JVM. (The Java Virtual Machine Specification, chapter 4.)
"""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

BROKEN: Final = (RuntimeError, NotImplementedError, zlib.error, zipfile.BadZipFile)
"""What zipfile raises for a file that is not a jar, besides OSError."""
_API: Final = "org/apache/kafka/connect/"
_PLUGINS: Final = frozenset(_API + name for name in (
    "source/SourceConnector", "sink/SinkConnector", "storage/Converter", "storage/HeaderConverter",
    "transforms/Transformation", "transforms/predicates/Predicate"))
_NOT_CONCRETE: Final = 0x0200 | 0x0400  # an interface, abstract
_UTF8, _CLASS = 1, 7
_SIZES: Final = {3: 4, 4: 4, 5: 8, 6: 8, _CLASS: 2, 8: 2, 9: 4, 10: 4, 11: 4, 12: 4, 15: 3, 16: 2, 17: 4, 18: 4, 19: 2,
                 20: 2}
"""Bytes of each kind of constant, after its tag."""
_TWO: Final = {5, 6}  # long and double take two places


@dataclass(frozen=True, slots=True)
class _Header:
    """`parents`: the superclass, which only Object lacks, and interfaces."""

    concrete: bool
    parents: tuple[str, ...]


def plugin_classes(jars: Iterable[Path]) -> set[str]:
    """The concrete classes that are connectors, converters, transforms or predicates; their ancestors may be in any of
    the jars. Jars that cannot be read, or that never name Connect's API, such as a driver's, have none.
    """
    headers = {name: header for jar in jars for name, header in _headers(jar).items()}
    known = dict.fromkeys(_PLUGINS, True)

    def extends(name: str) -> bool:
        if name not in known:
            known[name] = False  # until it is known; also ends a cycle
            known[name] = name in headers and any(map(extends, headers[name].parents))
        return known[name]

    return {name.replace("/", ".") for name, header in headers.items() if header.concrete and extends(name)}


def _headers(jar: Path) -> dict[str, _Header]:
    try:
        with zipfile.ZipFile(jar) as archive:
            files = {name: archive.read(name) for name in archive.namelist()
                     if name.endswith(".class") and not name.startswith("META-INF/")}
    except (OSError, *BROKEN):
        return {}
    if not any(_API.encode() in data for data in files.values()):
        return {}
    return {name.removesuffix(".class"): header for name, data in files.items() if (header := _header(data))}


def _header(data: bytes) -> _Header | None:
    """A class's header; None if it is not a class file."""
    try:
        return _parsed(data)
    except (IndexError, KeyError, struct.error, UnicodeDecodeError):
        return None


def _parsed(data: bytes) -> _Header:
    (count,) = struct.unpack_from(">H", data, 8)
    at, number = 10, 1
    texts: dict[int, bytes] = {}
    classes: dict[int, int] = {}
    while number < count:
        tag = data[at]
        if tag == _UTF8:
            (size,) = struct.unpack_from(">H", data, at + 1)
            texts[number] = data[at + 3 : at + 3 + size]
            at += 3 + size
        else:
            if tag == _CLASS:
                (classes[number],) = struct.unpack_from(">H", data, at + 1)
            at += 1 + _SIZES[tag]
        number += 2 if tag in _TWO else 1
    flags, _, parent, interfaces = struct.unpack_from(">4H", data, at)
    parents = (parent, *struct.unpack_from(f">{interfaces}H", data, at + 8))
    return _Header(not flags & _NOT_CONCRETE, tuple(texts[classes[parent]].decode() for parent in parents if parent))
