"""From a StartTask to the runner that moves its data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from actors.messages import StartTask
from actors.worker_config import WorkerConfig
from spark_tasks.api import SourceConnector
from spark_tasks.plugins import Plugins
from spark_tasks.running.runners import Runners
from spark_tasks.task import TaskContext, TaskRunner
from spark_tasks.task_configs import check_tasks_max
from storage.config_state import ConfigView
from storage.ids import ConnectorName, ConnectorTaskId, TopicName
from storage.offset_store import OffsetStores


@dataclass(frozen=True, slots=True)
class TaskRunners:
    """Makes runners in the task actor's thread; whatever it raises makes the task FAILED."""

    config: WorkerConfig
    plugins: Plugins
    runners: Runners
    offsets: OffsetStores
    configs: ConfigView
    resolve: Callable[[Mapping[str, Any], ConnectorName], Mapping[str, str]]
    topic_used: Callable[[ConnectorTaskId, TopicName], None]

    def make(self, command: StartTask, wake: Callable[[], None]) -> TaskRunner:
        """A runner, not started. Raises ConfigError, TooManyTasksError, PluginNotFoundError."""
        task = command.task
        connector = self.resolve(command.connector_config, task.connector)
        check_tasks_max(task.connector, self.configs.config.task_count(task.connector), connector)
        source = issubclass(self.plugins.connector(connector.get("connector.class", "")), SourceConnector)
        own_topic = connector.get("offsets.storage.topic") if source and self.config.transactional_leader else None
        return self.runners.make(TaskContext(
            connector_name=task.connector, task=task.task, group_id=self.config.group_id,
            worker=self.config.originals, connector=connector,
            config=self.resolve(command.task_config, task.connector), engine=self.runners.engine,
            offsets=self.offsets.of(task.connector, TopicName(own_topic) if own_topic else None) if source else None,
            wake=wake, topic_used=lambda topic: self.topic_used(task, TopicName(topic)),
        ))
