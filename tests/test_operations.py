"""Files for operators in ops/: the alert rules fire when they should, the dashboard uses metrics that exist."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

from actors.instances.scaler import Scaled
from storage.ids import ConnectorName, State
from tests.rigs import probes
from tests.rigs.metrics import Cluster, busy

OPS = Path(__file__).parents[1] / "ops"
_NAME = re.compile(r"\b((?:heeler|kafka_connect|process)_[a-z_]+)\b(?!=)")


def known() -> set[str]:
    """Names of all series that a worker with a source and a sink shows."""
    cluster = Cluster()
    for name, kind in (("a", "source"), ("b", "sink")):
        cluster.has(name, State.RUNNING)
        cluster.has(name, State.RUNNING)  # started once more
        busy(cluster, name, 0, kind)
    cluster.metrics.queues = lambda: ({"herder": 0}, {})
    cluster.metrics.scaling = lambda: {ConnectorName("b"): Scaled(2, 5)}
    return set(re.findall(r"^([a-z_]+)[{ ]", cluster.metrics.page(), re.MULTILINE)) | {"heeler_spark_memory_bytes"}


def test_systemd_accepts_the_documented_unit(tmp_path):
    file = tmp_path / "heeler.service"
    file.write_text(probes.unit(tmp_path / "worker.properties"))
    done = subprocess.run(["systemd-analyze", "verify", str(file)], capture_output=True, text=True, timeout=60,
                          check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_alert_rules_fire_when_they_should():
    rules = OPS / "prometheus"
    for command in (["check", "rules", "heeler-alerts.yml"], ["test", "rules", "heeler-alerts-test.yml"]):
        done = subprocess.run(["promtool", *command], cwd=rules, capture_output=True, text=True, timeout=60,
                              check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    alerts = re.findall(r"- alert: (\w+)", (rules / "heeler-alerts.yml").read_text())
    fired = re.findall(r'alertname="(\w+)"', (rules / "heeler-alerts-test.yml").read_text())
    assert sorted(alerts) == sorted(fired), "each of them fires in the test, once, and not for what is well"


def test_alert_rules_and_dashboard_query_existing_metrics():
    dashboard = json.loads((OPS / "grafana" / "heeler-dashboard.json").read_text())
    asked = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    asked += [variable["definition"] for variable in dashboard["templating"]["list"] if "definition" in variable]
    rules = (OPS / "prometheus" / "heeler-alerts.yml").read_text()
    asked += re.findall(r"expr: (?:>-\n)?((?:.|\n)*?)(?=\n {8}\w)", rules)
    assert len(asked) > 25
    assert {name for text in asked for name in _NAME.findall(text)} - known() == set()
