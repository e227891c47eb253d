"""What a worker's /metrics answers."""

from __future__ import annotations

import http.client

from prometheus_client.parser import text_string_to_metric_families


def get(rig, path: str) -> tuple[int, str, str]:
    """Status, media type and text of an answer."""
    host = rig.rest.url.removeprefix("http://")
    connection = http.client.HTTPConnection(host, timeout=20)
    try:
        connection.request("GET", path, headers={"Accept": "application/openmetrics-text,text/plain;q=0.5"})
        answer = connection.getresponse()
        return answer.status, answer.getheader("Content-Type", ""), answer.read().decode()
    finally:
        connection.close()


def metrics(rig) -> dict[tuple[str, ...], float]:
    """Values by name and the labels connector, task, and whatever else but the worker, in the order of their names."""
    status, kind, page = get(rig, "/metrics")
    assert (status, kind) == (200, "text/plain; version=0.0.4; charset=utf-8")
    found = {}
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            others = [v for k, v in sorted(sample.labels.items()) if k != "worker"]
            found[(sample.name, *others)] = sample.value
    return found
