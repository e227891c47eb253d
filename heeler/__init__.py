"""The names that authors of plugins import: `from heeler import SourceConnector, ConfigDef, ConfigKey, Type`.

Names are imported on first use: the command line must not wait for PySpark.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spark_tasks.config.definition import REQUIRED as REQUIRED
    from spark_tasks.config.definition import ConfigDef as ConfigDef
    from spark_tasks.config.definition import ConfigKey as ConfigKey
    from spark_tasks.config.definition import Importance as Importance
    from spark_tasks.config.definition import Type as Type
    from spark_tasks.errors import ConfigError as ConfigError
    from spark_tasks.errors import ConnectError as ConnectError
    from spark_tasks.errors import DataError as DataError
    from spark_tasks.errors import PermanentError as PermanentError
    from spark_tasks.errors import RetriableError as RetriableError
    from spark_tasks.metrics.plugins import PluginMetrics as PluginMetrics
    from spark_tasks.metrics.plugins import plugin_metrics as plugin_metrics
    from spark_tasks.pipeline.transforms.base import Predicate as Predicate
    from spark_tasks.pipeline.transforms.base import Transform as Transform
    from spark_tasks.pipeline.transforms.function_transform import Record as Record
    from spark_tasks.pipeline.transforms.function_transform import transform as transform
    from spark_tasks.plugins.api import Connector as Connector
    from spark_tasks.plugins.api import ConnectorContext as ConnectorContext
    from spark_tasks.plugins.api import SinkConnector as SinkConnector
    from spark_tasks.plugins.api import SourceConnector as SourceConnector
    from spark_tasks.plugins.config_providers import ConfigData as ConfigData
    from spark_tasks.plugins.config_providers import ConfigProvider as ConfigProvider
    from spark_tasks.plugins.errant_records import errant_record_reporter as errant_record_reporter
    from spark_tasks.plugins.function_source import source as source
    from spark_tasks.plugins.origin import kafka_partition as kafka_partition

_HOMES = {
    "spark_tasks.plugins.api": ("Connector", "ConnectorContext", "SinkConnector", "SourceConnector"),
    "spark_tasks.config.definition": ("REQUIRED", "ConfigDef", "ConfigKey", "Importance", "Type"),
    "spark_tasks.plugins.config_providers": ("ConfigData", "ConfigProvider"),
    "spark_tasks.errors": ("ConfigError", "ConnectError", "DataError", "PermanentError", "RetriableError"),
    "spark_tasks.plugins.errant_records": ("errant_record_reporter",),
    "spark_tasks.plugins.origin": ("kafka_partition",),
    "spark_tasks.metrics.plugins": ("PluginMetrics", "plugin_metrics"),
    "spark_tasks.plugins.function_source": ("source",),
    "spark_tasks.pipeline.transforms.base": ("Predicate", "Transform"),
    "spark_tasks.pipeline.transforms.function_transform": ("Record", "transform"),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}
__all__ = sorted(_HOME_OF)  # noqa: PLE0605 - the names of the table above


def __getattr__(name: str) -> Any:
    """Imports the module that has the name (PEP 562)."""
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__} has no attribute {name}")
    value = getattr(import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """The names above, for completion."""
    return [*globals(), *__all__]
