"""Clusters and watchers are shared by clients with the same settings, and are closed when unused. No broker is used."""

from __future__ import annotations

from typing import Any

from spark_tasks.kafka.end_watchers import EndWatchers
from spark_tasks.kafka.security.tls import PemText, Tls
from spark_tasks.kafka.shared_clusters import MAX_KEPT, shared_cluster
from tests.rigs.support import wait_until


def settings(number: int) -> dict[str, Any]:
    return {"bootstrap_servers": ["127.0.0.1:1"], "sasl_plain_password": f"of hour {number}"}


def test_unused_clusters_are_kept_while_few_others_are_used() -> None:
    first = shared_cluster(settings(0)).io
    second = shared_cluster(settings(1)).io
    assert shared_cluster(settings(0)).io is first
    for number in range(2, MAX_KEPT + 1):
        shared_cluster(settings(number))
    wait_until(lambda: not second.alive, 10, "the end of the one that was used longest ago")
    assert first.alive
    assert shared_cluster(settings(1)).io is not second


def test_clients_with_other_keys_have_other_clusters() -> None:
    def with_key(key: str) -> dict[str, Any]:
        return {"bootstrap_servers": ["127.0.0.1:1"], "ssl_context": Tls(chain=PemText(key), key=PemText(key))}

    mine = shared_cluster(with_key("mine"))
    assert shared_cluster(with_key("mine")) is mine
    assert shared_cluster(with_key("other")) is not mine


def test_a_cluster_in_use_is_not_closed() -> None:
    mine = shared_cluster(settings(100))
    for number in range(101, 102 + MAX_KEPT):
        shared_cluster(settings(number))
    assert shared_cluster(settings(100)) is mine
    assert mine.io.alive


def test_a_watcher_lives_as_long_as_tasks_use_it() -> None:
    watchers = EndWatchers()
    mine = watchers.of(settings(0))
    assert watchers.of(dict(reversed(settings(0).items()))) is mine
    io = mine.cluster.io
    del mine
    wait_until(lambda: not io.alive, 10, "the end of its connections")
    other = watchers.of(settings(0))
    assert other.cluster.io.alive
    watchers.close()
    assert not other.cluster.io.alive
