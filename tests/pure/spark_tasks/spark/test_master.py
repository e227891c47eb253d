"""What spark.master says about where Spark runs."""

from __future__ import annotations

import os

import pytest

from spark_tasks.spark.context import spark_settings
from spark_tasks.spark.master import SparkMaster


@pytest.mark.parametrize(("text", "is_local", "slots"), [
    ("local", True, 1), ("local[7]", True, 7), ("local[3, 2]", True, 3), ("local[*]", True, os.cpu_count()),
    ("local-cluster[1,1,1024]", True, None), ("spark://a:7077", False, None), ("yarn", False, None),
    ("k8s://https://a", False, None),
])  # fmt: skip
def test_a_local_master_has_slots(text: str, is_local: bool, slots: int | None) -> None:
    master = SparkMaster.of({"spark.master": text})
    assert (master.text, master.is_local, master.slots) == (text, is_local, slots)


def test_unset_is_local() -> None:
    assert SparkMaster.of({}).is_local


@pytest.mark.parametrize(("text", "is_standalone", "addresses"), [
    ("spark://a:1,[::1]:2", True, ("a:1", "[::1]:2")), ("k8s://https://a:443", False, ("a:443",)),
    ("k8s://http://a", False, ("a",)), ("yarn", False, ()), ("local[2]", False, ()),
])  # fmt: skip
def test_a_cluster_has_addresses(text: str, is_standalone: bool, addresses: tuple[str, ...]) -> None:
    master = SparkMaster.of({"spark.master": text})
    assert (master.is_standalone, master.addresses) == (is_standalone, addresses)


def test_blanks_around_a_master_mean_nothing() -> None:
    """As elsewhere in a worker's file. Executors were started as on a cluster."""
    assert SparkMaster.of({"spark.master": " local[2] "}) == SparkMaster.of({"spark.master": "local[2]"})
    assert spark_settings({"spark.master": " local[2] "})["spark.master"] == "local[2]"
