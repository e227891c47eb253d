"""A source that counts what it does (KIP-877): its connector on the worker, its reader in executors."""

from pyspark import SparkContext

from heeler import plugin_metrics, source


@source("n bigint")
def Numbers(options, start):
    """The numbers from 0 on, `records` of them."""
    begin, end = start.get("next", 0), int(options["records"])
    for n in range(begin, end):
        kind = "odd" if n % 2 else "even"
        plugin_metrics().counter("numbers_total", "Numbers by kind.", kind=kind).inc()
    return [(n,) for n in range(begin, end)], {"next": end}


class Metered(Numbers):
    """The same source, whose connector has a gauge with the limit, and has the worker start Spark."""

    def start(self):
        SparkContext.getOrCreate()
        self.context.metrics.gauge("limit", "Where it ends.").set(int(self.config["records"]))
