"""The watchers of a worker."""

from __future__ import annotations

import threading
from collections.abc import Hashable, Mapping
from typing import Any
from weakref import WeakValueDictionary

from spark_tasks.kafka.cluster import KafkaCluster
from spark_tasks.kafka.shared_clusters import settings_key
from spark_tasks.kafka.watcher import EndWatcher


class EndWatchers:
    """The worker's watchers: one for each set of client settings, which connectors may override. A watcher exists as
    long as tasks use it. Thread-safe.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._watchers: WeakValueDictionary[Hashable, EndWatcher] = WeakValueDictionary()

    def of(self, settings: Mapping[str, Any]) -> EndWatcher:
        """Returns the watcher for clients with these settings. It connects when it is first used."""
        key = settings_key(settings)
        with self._lock:
            watcher = self._watchers.get(key)
            if watcher is None:
                watcher = self._watchers[key] = EndWatcher(KafkaCluster(settings))
            return watcher

    def close(self) -> None:
        """Closes all watchers. The tasks must have ended."""
        with self._lock:
            watchers = list(self._watchers.values())
            self._watchers.clear()
        for watcher in watchers:
            watcher.close()
