"""Validation of connector configurations (Kafka Connect's AbstractHerder.validateConnectorConfig)."""

from spark_tasks.validation.connector import (
    NoConfigDefError,
    NoConnectorClassError,
    Resolve,
    plugin_config,
    validate_connector,
)
from spark_tasks.validation.infos import ConfigInfo, ConfigInfos
from spark_tasks.validation.settings import ValidationSettings

__all__ = [
    "ConfigInfo", "ConfigInfos", "NoConfigDefError", "NoConnectorClassError", "Resolve", "ValidationSettings",
    "plugin_config", "validate_connector",
]
