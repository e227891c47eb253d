"""Suspends an embedded broker, as a broker that hangs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psutil

from heeler.embedded_kafka.broker import EmbeddedBroker


@contextmanager
def suspended(broker: EmbeddedBroker) -> Iterator[None]:
    """The broker's process is suspended in this block."""
    folder = str(broker.data_dir)
    (process,) = (one for one in psutil.process_iter(["name", "cmdline"])
                  if one.info["name"] == "java" and any(folder in arg for arg in one.info["cmdline"] or ()))
    process.suspend()
    try:
        yield
    finally:
        process.resume()
