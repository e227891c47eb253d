"""The KafkaClusters of this process, one for each set of client settings. Splits reuse them.

The most recently used ones stay open, the others only while they are referenced. If a config provider returns new
credentials every hour, connections with old credentials must not accumulate.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Hashable, Mapping
from functools import lru_cache
from typing import Any, Final
from weakref import WeakValueDictionary

from spark_tasks.kafka.cluster import KafkaCluster

MAX_KEPT: Final = 32


def settings_key(settings: Mapping[str, Any]) -> Hashable:
    """Returns a key that is equal for equal client settings."""
    return frozenset((key, tuple(value) if isinstance(value, list) else value) for key, value in settings.items())


def shared_cluster(settings: Mapping[str, Any]) -> KafkaCluster:
    """Returns this process's cluster for these settings, never one that was inherited from the parent process."""
    key = settings_key(settings)
    with _LOCK:
        cluster = _CLUSTERS.get(key)
        if cluster is None or not cluster.io.alive:
            cluster = _CLUSTERS[key] = KafkaCluster(settings)
        _keep(cluster)
        return cluster


@lru_cache(maxsize=MAX_KEPT)
def _keep(_cluster: KafkaCluster) -> None:
    """Keeps references to the most recently used clusters, by its cache."""


_LOCK = threading.Lock()
_CLUSTERS: WeakValueDictionary[Hashable, KafkaCluster] = WeakValueDictionary()
_INHERITED: list[KafkaCluster] = []


def _after_fork() -> None:
    """Drops the parent's clusters: a forked child has their sockets but not their IO thread. It keeps references to the
    objects, because closing them would shut down the parent's connections.
    """
    global _LOCK  # noqa: PLW0603
    _LOCK = threading.Lock()
    _INHERITED.extend(_CLUSTERS.values())
    _CLUSTERS.clear()
    _keep.cache_clear()


def close_shared() -> None:
    """Closes all clusters of this process; those that are used later are opened again."""
    for cluster in list(_CLUSTERS.values()):
        cluster.close()


os.register_at_fork(after_in_child=_after_fork)
atexit.register(close_shared)
