"""Which test files run together, and which run first, if `make test` uses four processes.

A process is given its next unit shortly before it is done with the last one. So those that take long come first, and
the units at the end are short. Files that share a worker for the whole session are one unit, so that the worker is
started once. The files with the schema registry are in it too, because one of them needs both: each is started once.
"""

from __future__ import annotations

from typing import Any, Final

from xdist.scheduler import LoadFileScheduling

_SHARED_WORKER: Final = (
    "worker_failures", "worker_lifecycle", "worker_offsets", "worker_data", "worker_plugins", "worker_fairness",
    "worker_metrics", "self_healing", "tasks_auto", "replays", "api_described", "cli_cluster",
)
_SCHEMA_REGISTRY: Final = ("avro", "json_schema", "protobuf", "every_converter", "access", "worker")
_JAVA_WORKER: Final = ("java_plugins", "java_sinks", "java_replays", "java_source_replays")
UNITS: Final[tuple[tuple[str, ...], ...]] = (
    (*(f"integration/test_{name}.py" for name in _SHARED_WORKER),
     *(f"integration/schema_registry/test_{name}.py" for name in _SCHEMA_REGISTRY)),
    ("integration/test_cluster_failures.py",),
    ("integration/test_spark_cluster_worker.py",),
    ("interop/test_exactly_once_interop.py",),
    ("integration/test_exactly_once_cluster.py",),
    ("interop/test_mixed_cluster.py",),
    ("integration/test_exactly_once_rolling.py",),
    ("integration/test_java_faults.py",),
    ("integration/test_engine.py",),
    ("integration/test_letters_once.py",),
    ("integration/test_dead_letters.py",),
    ("integration/test_engine_start.py",),
    ("integration/test_spark_cluster.py",),
    ("integration/test_worker_crash.py",),
    ("integration/test_letters_crash.py",),
    ("integration/test_demo.py",),
    ("integration/test_worker_security.py",),
    tuple(f"integration/test_{name}.py" for name in _JAVA_WORKER),
    ("integration/test_worker_process.py",),
    ("integration/test_broker_failures.py",),
    ("integration/test_broker.py",),
    ("integration/test_cluster_broker.py",),
    ("integration/test_exactly_once_task.py",),
    ("integration/test_sink_task.py",),
    ("integration/test_java_hosts.py",),
    ("integration/test_orphans.py",),
    ("integration/test_source_replays.py",),
    ("integration/test_kafka_data_plane.py",),
    ("integration/test_source_task.py",),
    ("integration/test_cluster_sleep.py",),
    ("integration/test_group_member.py",),
    ("contract/test_topic_log_kafka.py",),
    ("integration/test_rest_golden.py",),
    ("integration/test_hostile_batches.py",),
    ("integration/test_worker_secrets.py",),
    ("integration/test_cluster_requests.py",),
)
_UNIT_OF: Final = {file: number for number, unit in enumerate(UNITS) for file in unit}


def place(nodeid: str) -> tuple[int, int]:
    """The position of a test's file: its unit, then its place in the unit. Files without a unit come last."""
    file = nodeid.partition("::")[0].removeprefix("tests/")
    unit = _UNIT_OF.get(file, len(UNITS))
    return unit, UNITS[unit].index(file) if unit < len(UNITS) else 0


class UnitScheduling(LoadFileScheduling):
    """Assigns units in the order in which their tests were collected."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.config.option.loadscopereorder = False  # it would put those with many tests first

    def _split_scope(self, nodeid: str) -> str:
        unit, _ = place(nodeid)
        return str(unit) if unit < len(UNITS) else super()._split_scope(nodeid)
