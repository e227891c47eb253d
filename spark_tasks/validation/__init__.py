"""Validation of connector configurations (Kafka Connect's AbstractHerder.validateConnectorConfig)."""

from spark_tasks.validation.connector import (
    NoConfigDefError,
    NoConnectorClassError,
    Resolve,
    plugin_config,
    validate_connector,
)
from spark_tasks.validation.infos import ConfigInfo, ConfigInfos

__all__ = [
    "ConfigInfo", "ConfigInfos", "NoConfigDefError", "NoConnectorClassError", "Resolve", "plugin_config",
    "validate_connector",
]
