"""The objects that every resource needs to serve a request."""

from __future__ import annotations

from dataclasses import dataclass

from rest.herder_client import HerderClient
from rest.server.settings import RestSettings
from rest.wire.worker_view import WorkerView


@dataclass(frozen=True, slots=True)
class ResourceContext:
    """Passed to each blueprint."""

    herder: HerderClient
    view: WorkerView
    settings: RestSettings
