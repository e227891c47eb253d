"""What the herder knows about a patch of a connector's configuration that is validated: part of its state."""

from __future__ import annotations

from dataclasses import dataclass

from actors.messages.requests import PatchConnector
from storage.ids import Config


@dataclass(frozen=True, slots=True)
class Patched:
    """A patch that is being validated: `config` is the patch of `request` merged into `base`, the stored config."""

    request: PatchConnector
    base: Config
    config: Config
