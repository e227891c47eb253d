"""Keys of every connector that heeler accepts and checks, as Kafka Connect does, and has no use for yet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

IGNORED: Final = (
    "errors.tolerance", "errors.retry.timeout", "errors.retry.delay.max.ms", "errors.log.enable",
    "errors.log.include.messages", "errors.deadletterqueue.topic.name",
    "errors.deadletterqueue.topic.replication.factor", "errors.deadletterqueue.context.headers.enable",
)  # fmt: skip
_NOTHING_WANTED: Final = {"errors.tolerance": "none", "errors.retry.timeout": "0", "errors.log.enable": "false"}


def warning(connector: Mapping[str, str]) -> str | None:
    """One line about what a connector's configuration wants in vain; None where it wants nothing."""
    wanted = [key for key in IGNORED if connector.get(key, "").strip().lower() not in ("", _NOTHING_WANTED.get(key))]
    if not wanted:
        return None
    return (f"heeler ignores {', '.join(wanted)}: a record that cannot be converted, transformed or written fails the "
            "task, and is neither skipped nor sent to another topic")
