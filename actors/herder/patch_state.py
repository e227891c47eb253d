"""The part of the herder's state about a patch of a connector's configuration that is being validated."""

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
