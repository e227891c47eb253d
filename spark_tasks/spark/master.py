"""Where Spark runs: the setting spark.master."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

from typing_extensions import override

MASTER: Final = "spark.master"
FORMS: Final = "local, local[N], spark://HOST:PORT, k8s://URL or yarn"
_FORM: Final = re.compile(r"local(\[.+\])?|local-cluster\[.+\]|spark://[^,/]+:\d+(,[^,/]+:\d+)*|k8s://.+|yarn")
_SLOTS: Final = re.compile(r"local(?:\[(\d+|\*)(?:,\s*\d+)?\])?")
_ADDRESSES: Final = re.compile(r"(?:spark|k8s://https?)://(.+)")


@dataclass(frozen=True, slots=True)
class SparkMaster:
    """`text`: as Spark reads it. `is_local`: Spark runs only on this machine. `slots`: how many tasks a local master
    runs at a time in its own process, None for others. `is_standalone`: a cluster of Spark itself. `addresses`:
    HOST:PORT of its masters, of which one is enough, or of Kubernetes' API server.
    """

    text: str
    is_local: bool
    slots: int | None
    is_standalone: bool
    addresses: tuple[str, ...]

    @override
    def __str__(self) -> str:
        return self.text

    @classmethod
    def of(cls, settings: Mapping[str, str]) -> Self:
        """Parses the setting, by default local."""
        return cls.parse(settings.get(MASTER, "local"))

    @classmethod
    def parse(cls, value: str) -> Self:
        """Parses a value of the setting. Spark itself refuses one that it does not know."""
        text = value.strip()
        places = _ADDRESSES.fullmatch(text)
        return cls(text, text.startswith("local"), _slots(text), text.startswith("spark://"),
                   tuple(places[1].split(",")) if places else ())


def is_master(value: str) -> bool:
    """Returns whether the value has one of the FORMS."""
    return _FORM.fullmatch(value) is not None


def _slots(text: str) -> int | None:
    match = _SLOTS.fullmatch(text)
    if match is None:
        return None
    number = match[1] or "1"
    return (os.cpu_count() or 1) if number == "*" else int(number)
