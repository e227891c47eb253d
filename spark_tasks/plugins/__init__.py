"""Finds plugins by name: `Plugins(plugin_path).connector("FileStreamSource")`."""

from spark_tasks.plugins.kinds import Kind as Kind
from spark_tasks.plugins.kinds import PassedOver as PassedOver
from spark_tasks.plugins.kinds import Plugin as Plugin
from spark_tasks.plugins.kinds import PluginInfo as PluginInfo
from spark_tasks.plugins.kinds import PluginNotFoundError as PluginNotFoundError
from spark_tasks.plugins.kinds import PluginVersionError as PluginVersionError
from spark_tasks.plugins.registry import Plugins as Plugins
