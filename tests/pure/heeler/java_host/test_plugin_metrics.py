"""The metrics of Java plugins in the worker's metrics."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from heeler.java_host.plugin_metrics import ChainFigures, figures
from heeler.worker.metrics import heeler_metrics
from heeler.worker.metrics.text import Page
from spark_tasks.metrics.plugins import MAX_SERIES, PluginMetrics

OF_TASK = {"connector": "c", "task": "0"}


def metric(name, value=None, help="", text=None, **tags):  # noqa: A002
    more = {"value": value} if text is None else {"text": text}
    return {"name": name, "help": help, "tags": {**OF_TASK, **tags}, **more}


def shown(reported):
    page = Page()
    heeler_metrics.plugins(page, [('connector="c",task="0"', figures(reported))])
    return page.text()


def test_metrics_of_java_plugins_have_prometheus_types():
    assert shown([metric("rows-read-total", 5.0, "Rows."), metric("lag", "NaN", transformation='a"b'),
                  metric("state", text="idle")]) == (
        """# HELP heeler_plugin_rows_read_total Rows.
# TYPE heeler_plugin_rows_read_total counter
heeler_plugin_rows_read_total{connector="c",task="0"} 5.0
# HELP heeler_plugin_lag A plugin\'s own metric.
# TYPE heeler_plugin_lag gauge
heeler_plugin_lag{connector="c",task="0",transformation="a\\"b"} NaN
# HELP heeler_plugin_state A plugin\'s own metric.
# TYPE heeler_plugin_state gauge
heeler_plugin_state{connector="c",task="0",state="idle"} 1.0
""")


def test_metrics_of_a_tasks_chains_are_added_up():
    metrics = PluginMetrics()
    metrics.counter("rows").inc(5)  # what the Python connector itself counts stays
    chains = ChainFigures(metrics)

    def reported(chain, *values):
        chains.take({"op": "metrics", "chain": chain, "values": list(values)})
        return {(series.name, *series.labels): value for series, (value, _) in metrics.figures().values.items()}

    assert reported(1, metric("read-total", 10.0), metric("open", 2.0), metric("state", text="idle")) == {
        ("rows",): 5, ("read",): 10, ("open",): 2, ("state", ("state", "idle")): 1}
    assert reported(2, metric("read-total", 3.0), metric("open", 1.0))["read",] == 13
    found = reported(1, metric("read-total", 14.0), metric("open", 2.0), metric("state", text="busy"))
    assert found == {("rows",): 5, ("read",): 17, ("open",): 2, ("state", ("state", "busy")): 1}
    chains.take({"op": "chainEnded", "chain": 1})
    assert reported(3, metric("read-total", 1.0))["read",] == 18
    assert reported(1, metric("read-total", 1.0))["read",] == 19, "a new one"


ANY = st.text(max_size=150)


@given(st.lists(st.builds(lambda name, value, tags, text: {**metric(name, value, name, text), "tags": tags},
                          ANY, st.floats(), st.dictionaries(ANY, ANY, max_size=3), st.none() | ANY), max_size=5))
def test_prometheus_can_parse_any_metrics_of_a_plugin(metrics):
    list(text_string_to_metric_families(shown(metrics)))


def test_new_figures_replace_earlier_ones_up_to_a_limit():
    metrics = PluginMetrics()
    metrics.gauge("old").set(1)
    metrics.replace(figures(metric(f"m{n}", n) for n in range(MAX_SERIES + 3)))
    found = metrics.figures()
    assert (len(found.values), found.dropped) == (MAX_SERIES, 3)
    metrics.replace(figures([metric("m", 1)]))
    assert [(s.name, v) for s, v in metrics.figures().values.items()] == [("m", (1.0, 0.0))]
    assert metrics.figures().dropped == 0
