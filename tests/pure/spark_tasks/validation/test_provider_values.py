"""Validation shows no value of a config provider, regardless of its length and its key."""

from __future__ import annotations

import json

import pytest

from spark_tasks.config.masking import MASK, process_secrets
from spark_tasks.plugins.config_providers import ConfigTransformer, EnvVarConfigProvider
from spark_tasks.validation import ValidationSettings, validate_connector
from tests.rigs.java_plugins import java_like

PLUGINS = java_like()
SOURCE = {"name": "n", "connector.class": "FileStreamSource", "topic": "t"}


def said(secret: str, **config: str) -> str:
    """All that validation answers or raises where S is in that environment variable."""
    resolve = ConfigTransformer({"env": EnvVarConfigProvider({"S": secret})}).transform
    raw = {**SOURCE, **{key.replace("_", "."): value for key, value in config.items()}}
    try:
        infos = validate_connector(raw, plugins=PLUGINS, worker=ValidationSettings(), resolve=resolve)
    except Exception as error:  # noqa: BLE001 - it is the answer
        return f"{type(error).__name__}: {error}"
    return json.dumps(infos.to_json(), ensure_ascii=False) + infos.message()


@pytest.mark.parametrize("secret", ["s3cr3t-value", "7x", "@", 'q"uo\'te', "two, parts9"])
@pytest.mark.parametrize("key", ["tasks_max", "errors_tolerance", "value_converter", "transforms", "predicates",
                                 "topic_creation_groups", "connector_class", "producer_override_acks",
                                 "name", "errors_retry_timeout", "config_action_reload"])
def test_provided_values_are_hidden_for_every_key(key: str, secret: str) -> None:
    found = said(secret, **{key: "${env:S}"})
    if secret != "@":  # noqa: S105 - nothing but a sign: hidden where it is the value, not in documentation
        assert secret not in found
        assert json.dumps(secret)[1:-1] not in found
    assert f"Invalid value {secret}" not in found
    assert "parts9" not in found


def test_only_the_provided_value_in_a_message_is_hidden() -> None:
    found = said("s3cr3t", tasks_max="${env:S}")
    assert f"Invalid value {MASK} for configuration tasks.max: Not a number of type INT" in found
    assert f"Invalid value {MASK} for configuration tasks.max: Value must be at least 1" in said(
        "-4", tasks_max="${env:S}")


def test_a_value_with_a_provided_part_is_hidden() -> None:
    found = said("s3cr3t", tasks_max="1${env:S}2")
    assert "s3cr3t" not in found
    assert f"Invalid value {MASK} for configuration tasks.max" in found


def test_provided_names_of_transforms_are_hidden() -> None:
    found = said("ab", transforms="${env:S}")
    assert f"transforms.{MASK}.type" in found
    assert "transforms.ab" not in found


def test_other_values_are_shown() -> None:
    found = said("s3cr3t", file="${env:S}", topic="a-topic", batch_size="x")
    assert '"value": "a-topic"' in found
    assert "Invalid value x for configuration batch.size" in found


def test_a_password_is_hidden_in_this_process_once_it_is_validated() -> None:
    """Before the connector is started, its configuration is already logged, by kafka-python at DEBUG for example."""
    said("", producer_override_sasl_jaas_config='M required username="u" password="s3cr3t-of-a-new-one";')
    assert process_secrets().mask("with s3cr3t-of-a-new-one") == f"with {MASK}"
