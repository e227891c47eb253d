"""Hides the secrets of connectors' configurations."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping

from spark_tasks.config.masking import MASK, Secrets, passwords, secret_name

Config = Mapping[str, str]
Mask = Callable[[str, str], str]
"""Takes a key and its value, and returns the value with secrets hidden."""

_PLACEHOLDER = re.compile(r"\$\{[^{}]*\}")  # a config provider's placeholder names a secret but is not secret itself
_IN_URL = re.compile(r"(?<=://)([^/\s@:]*):([^/\s]+)(?=@)")


def mask_of(*configs: Config, secret_keys: Collection[str] = ()) -> Mask:
    """Returns a function that hides the secrets of all these configs in the value of a key: the values of keys whose
    name says that they are secret, and of `secret_keys` (defined by the plugin), wherever they occur, and passwords in
    URLs. Placeholders of config providers remain.
    """
    secrets = Secrets.of(word for config in configs for word in secrets_of(config, secret_keys))

    def mask(key: str, value: str) -> str:
        if _PLACEHOLDER.fullmatch(value.strip()):
            return value
        if value and (key in secret_keys or secret_name(key)):
            return MASK
        return _IN_URL.sub(lambda match: f"{match[1]}:{MASK}", secrets.mask(value))

    return mask


def secrets_of(config: Config, secret_keys: Collection[str] = ()) -> list[str]:
    """The secrets of a config: those that `mask_of` hides."""
    plain = {key: value for key, value in config.items() if not _PLACEHOLDER.fullmatch(value.strip())}
    return [*passwords(plain, [key for key in secret_keys if key in plain]),
            *(match[2] for value in plain.values() for match in _IN_URL.finditer(value))]
