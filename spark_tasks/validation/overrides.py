"""Validates a connector's client overrides (producer.override.*, …), according to the worker's policy (KIP-458)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spark_tasks.config.client_keys import client_config_def
from spark_tasks.config.client_properties import Kind, client_properties
from spark_tasks.config.connector_keys import queue_of
from spark_tasks.config.definition import ConfigError, ConfigValue, parse_type
from spark_tasks.config.unsupported import refused
from spark_tasks.validation.infos import ConfigInfos, under_prefix
from spark_tasks.validation.settings import ValidationSettings


def validate_overrides(client: Kind, props: Mapping[str, Any], worker: ValidationSettings) -> ConfigInfos:
    """Validates the overrides of one kind of client. `props`: the connector's configuration."""
    policy = worker.clients.policy
    prefix = f"{client}.override."
    keys = client_config_def(client).keys
    given = {key: str(value) for key, value in props.items()
             if value is not None and not (key.startswith(prefix) and policy.refusal(key.removeprefix(prefix)))}
    insecure = refused(client_properties(worker.clients, given, client))
    values = []
    for full, raw in props.items():
        if not full.startswith(prefix) or full == prefix:
            continue
        value = ConfigValue(full.removeprefix(prefix), raw)
        try:
            if value.name in keys:
                value.value = parse_type(value.name, raw, keys[value.name].type)
        except ConfigError as e:
            # Java responds with status 500 and this message; an error of the key does not hide other errors.
            value.value = None
            value.errors.append(str(e))
        if forbidden := policy.refusal(value.name):
            value.errors.append(forbidden)
        elif value.name == "security.protocol":  # with it, settings of the worker may have to be rejected
            value.errors += [why for key, why in insecure.items() if prefix + key not in given]
        elif value.name in insecure:
            value.errors.append(insecure[value.name])
        values.append(value)
    return under_prefix(keys, values, prefix)


def clients_of(props: Mapping[str, Any], *, sink: bool, exactly_once_worker: bool) -> list[Kind]:
    """Returns the clients that a connector with this configuration uses."""
    dead_letters = bool(queue_of(props))
    creates_topics = not sink and any(key.startswith("topic.creation.") for key in props)
    own_offsets = not sink and (exactly_once_worker or bool((props.get("offsets.storage.topic") or "").strip()))
    uses: dict[Kind, bool] = {
        "producer": not sink or dead_letters,
        "consumer": sink or own_offsets,
        "admin": (sink and dead_letters) or creates_topics or own_offsets,
    }
    return [client for client, used in uses.items() if used]
