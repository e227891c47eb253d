"""A running connector as its actor sees it: on the worker, or in a process of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol, runtime_checkable

from typing_extensions import override

from spark_tasks.plugins.api import Connector, ConnectorContext, Options
from spark_tasks.plugins.third_party import is_third_party
from spark_tasks.task import PluginCall

_METHODS: Final = ("__init__", "start", "stop", "task_configs")


def third_party_methods(connector: type[Connector]) -> frozenset[str]:
    """Returns the methods for a running connector that are a third party's."""
    return frozenset(method for method in _METHODS if is_third_party(getattr(connector, method)))


@runtime_checkable
class ConnectorInstance(Protocol):
    """`abandon` and `plugin_calls` may be called on any thread, the others on one. All but `close` and `plugin_calls`
    raise what the plugin raises.
    """

    @property
    def elsewhere(self) -> bool:
        """Whether it is in a process of its own now. Any thread."""

    @property
    def task_class(self) -> str | None:
        """The Java class of its tasks, if there is one."""

    def start(self) -> None:
        """See Connector. It may be called again after `stop`, and after it has failed."""

    def stop(self) -> None:
        """See Connector."""

    def task_configs(self, max_tasks: int) -> Sequence[Options]:
        """See Connector."""

    def abandon(self) -> None:
        """See Connector."""

    def recover(self) -> None:
        """Starts it again if its process has ended. Raises RetriableError if that happens again and again."""

    def plugin_calls(self) -> Sequence[PluginCall]:
        """The call in progress in another process. Takes seconds."""

    def close(self) -> None:
        """Ends its process. Can be called twice."""


MakeInstance = Callable[[type[Connector], Mapping[str, str], ConnectorContext, Callable[[], None]], ConnectorInstance]
"""Creates an instance with a configuration and a context. The last argument is called, on any thread, when its process
has ended and `recover` is to be called.
"""


class InstanceOnWorker(ConnectorInstance):
    """A connector on the worker."""

    def __init__(self, connector: Connector) -> None:
        self._connector = connector

    @property
    @override
    def elsewhere(self) -> bool:
        return False

    @property
    @override
    def task_class(self) -> str | None:
        return getattr(self._connector, "task_class", None)

    @override
    def start(self) -> None:
        self._connector.start()

    @override
    def stop(self) -> None:
        self._connector.stop()

    @override
    def task_configs(self, max_tasks: int) -> Sequence[Options]:
        return self._connector.task_configs(max_tasks)

    @override
    def abandon(self) -> None:
        self._connector.abandon()

    @override
    def recover(self) -> None:
        """Nothing: it has no process that could end."""

    @override
    def plugin_calls(self) -> Sequence[PluginCall]:
        return ()

    @override
    def close(self) -> None:
        """Nothing: it has no process."""


def on_worker(connector: type[Connector], config: Mapping[str, str], context: ConnectorContext,
              _lost: Callable[[], None]) -> ConnectorInstance:
    """The MakeInstance of connectors on the worker."""
    return InstanceOnWorker(connector(dict(config), context))
