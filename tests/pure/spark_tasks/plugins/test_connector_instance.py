from __future__ import annotations

import pytest

from spark_tasks.connectors.datagen import DatagenSourceConnector
from spark_tasks.plugins.api import Connector, SinkConnector
from spark_tasks.plugins.connector_instance import third_party_methods
from tests.rigs.monitoring_connector import MonitoringConnector, StatelessConnector


class OfAPage(SinkConnector):
    """A connector that defines nothing but its data source."""


@pytest.mark.parametrize(("connector", "methods"), [
    (OfAPage, set()), (DatagenSourceConnector, set()), (StatelessConnector, {"task_configs"}),
    (MonitoringConnector, {"start", "stop", "task_configs"}),
])
def test_methods_of_third_parties_are_found(connector: type[Connector], methods: set[str]) -> None:
    assert third_party_methods(connector) == methods
