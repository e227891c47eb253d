"""What every resource needs to serve a request."""

from __future__ import annotations

from dataclasses import dataclass

from rest.asking import Asking
from rest.server.settings import RestSettings
from rest.wire.view import WorkerView


@dataclass(frozen=True, slots=True)
class Front:
    """Handed to each blueprint."""

    asking: Asking
    view: WorkerView
    settings: RestSettings
