"""The process's KafkaClusters, one for each set of client settings (Spark reuses its Python workers).

The most recently used ones are kept; others live only as long as they are referenced. A config provider may return
new credentials every hour, and connections with old credentials must not pile up.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final
from weakref import WeakValueDictionary

from spark_tasks.kafka.cluster import KafkaCluster

MOST_KEPT: Final = 32


def settings_key(settings: Mapping[str, Any]) -> str:
    """A key that is equal for equal client settings."""
    return repr(sorted(settings.items(), key=lambda item: item[0]))


def shared_cluster(settings: Mapping[str, Any]) -> KafkaCluster:
    """The process's cluster for these settings; never one inherited from a parent process."""
    key = settings_key(settings)
    with _LOCK:
        found = _CLUSTERS.get(key)
        if found is None or not found.io.alive:
            found = _CLUSTERS[key] = KafkaCluster(settings)
        _keep(found)
        return found


@lru_cache(maxsize=MOST_KEPT)
def _keep(_cluster: KafkaCluster) -> None:
    """Keep references to the most recently used clusters."""


_LOCK = threading.Lock()
_CLUSTERS: WeakValueDictionary[str, KafkaCluster] = WeakValueDictionary()
_INHERITED: list[KafkaCluster] = []


def _after_fork() -> None:
    """A forked child has its parent's sockets but not its IO thread. The objects are kept so that they are never
    closed, because a shutdown here would end the parent's connections.
    """
    global _LOCK  # noqa: PLW0603
    _LOCK = threading.Lock()
    _INHERITED.extend(_CLUSTERS.values())
    _CLUSTERS.clear()
    _keep.cache_clear()


def _close_shared() -> None:
    for cluster in list(_CLUSTERS.values()):
        cluster.close()


os.register_at_fork(after_in_child=_after_fork)
atexit.register(_close_shared)
