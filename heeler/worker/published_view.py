"""The worker's state for REST: atomic references to the newest snapshots, and the plugin registry."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from importlib.metadata import version as version_of
from typing import Any, Literal

from actors.herder.standing import Phase
from actors.herder.state import HerderState
from actors.messages.requests import RequestStage
from heeler.worker.loggers import WorkerLoggers
from heeler.worker.plugin_facts import PluginFacts
from heeler.worker.recent_logs import RecentLogs
from heeler.worker.trial_process import Trials
from spark_tasks.plugins import PluginInfo
from storage.config.state import ClusterConfigState
from storage.config.view import ConfigView
from storage.ids import Config
from storage.status.state import StatusState
from storage.status.view import StatusView

KAFKA_VERSION = "4.3.1"  # clients enable features by this version
COMMIT = "heeler"


class PublishedView:
    """Implements rest.wire.worker_view.WorkerView. Each attribute is replaced as a whole by its one writer."""

    version = KAFKA_VERSION
    commit = COMMIT
    heeler_version = version_of("heeler")

    def __init__(self, configs: ConfigView, statuses: StatusView, facts: PluginFacts, trials: Trials) -> None:
        self._configs = configs
        self._statuses = statuses
        self._facts = facts
        self.trial = trials.run
        self.loggers = WorkerLoggers()
        self.recent_logs = RecentLogs()
        self.stage: RequestStage | None = None
        self.started = False
        self.kafka_cluster_id: str | None = None
        self.metrics: Callable[[Collection[str]], str] = lambda _names: ""  # the worker's, from its first moment
        self.degraded: Callable[[], Sequence[str]] = tuple  # set by the data plane
        self.waiting: Callable[[], Sequence[str]] = tuple  # the watchdog's

    def follow(self, state: HerderState) -> None:
        """Takes the herder's newest state."""
        self.stage = state.stage
        self.started = self.started or state.phase is Phase.RESOLVED

    @property
    def config(self) -> ClusterConfigState:
        """The newest snapshot of the config topic."""
        return self._configs.config

    @property
    def statuses(self) -> StatusState:
        """The newest snapshot of the status topic."""
        return self._statuses.statuses

    def connector_type(self, config: Config | None) -> Literal["source", "sink", "unknown"]:
        """The type of the connector class in a config."""
        return self._facts.connector_type(config)

    def logs(self, connector: str) -> Sequence[str]:
        """The last lines of this worker's log about a connector."""
        return self.recent_logs.lines(connector)

    def plugins(self) -> Sequence[PluginInfo]:
        """Installed plugins, in the order of GET /connector-plugins."""
        return self._facts.all()

    def plugin_config(self, name: str, version: str | None) -> Sequence[Mapping[str, Any]]:
        """A plugin's keys; raises NotFoundError and BadRequestError."""
        return self._facts.describe(name, version)
