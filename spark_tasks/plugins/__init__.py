"""Finding plugins by name: `Plugins(plugin_path).connector("FileStreamSource")`."""

from spark_tasks.plugins.kinds import (
    Kind,
    PassedOver,
    Plugin,
    PluginInfo,
    PluginNotFoundError,
    PluginVersionError,
)
from spark_tasks.plugins.registry import Plugins

__all__ = ["Kind", "PassedOver", "Plugin", "PluginInfo", "PluginNotFoundError", "PluginVersionError", "Plugins"]
