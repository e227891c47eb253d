"""The process's clusters, one for each set of client settings (Spark reuses its Python workers).

Those that were asked for last are kept; others live as long as somebody has them. A config provider may give new
credentials every hour, and the connections under the old ones must not pile up.
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
    """The same for equal client settings."""
    return repr(sorted(settings.items(), key=lambda item: item[0]))


def shared_cluster(settings: Mapping[str, Any]) -> KafkaCluster:
    """The process's cluster for these settings; never a parent process's."""
    key = settings_key(settings)
    with _LOCK:
        found = _CLUSTERS.get(key)
        if found is None or not found.io.alive:
            found = _CLUSTERS[key] = KafkaCluster(settings)
        _keep(found)
        return found


@lru_cache(maxsize=MOST_KEPT)
def _keep(_cluster: KafkaCluster) -> None:
    """Holds on to the clusters that were asked for last."""


_LOCK = threading.Lock()
_CLUSTERS: WeakValueDictionary[str, KafkaCluster] = WeakValueDictionary()
_INHERITED: list[KafkaCluster] = []


def _after_fork() -> None:
    """A child has its parent's sockets but not its IO thread. The objects are kept, so that nothing closes them:
    a shutdown here would end the parent's connections.
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
