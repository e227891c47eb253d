"""The settings of Java plugins' JVMs, from the texts of a worker's file."""

from __future__ import annotations

from collections.abc import Mapping

from heeler.java_host.settings import JavaHostSettings
from heeler.worker.keys.worker import HOST_KEYS


def java_settings(worker: Mapping[str, str], levels: Mapping[str, str] | None = None) -> JavaHostSettings:
    """Parses them; keys that are not set have their defaults."""
    return JavaHostSettings.of(HOST_KEYS.parse(worker), levels or {})
