"""Environment variables for the Python workers and for the daemon that forks them, and its optional imports."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

import spark_tasks

# Read by the libraries when they are imported: none of them may start a thread in a process that forks. MALLOC_*: glibc
# keeps up to 64 MiB of what a process has freed for its next batch. By default memory goes back to the system after
# each column, and page faults took a fifth of a sink's time.
ENVIRONMENT: Mapping[str, str] = {
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "NUMBA_NUM_THREADS": "1",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
    "MALLOC_TRIM_THRESHOLD_": str(64 * 1024 * 1024),
    "MALLOC_MMAP_THRESHOLD_": str(32 * 1024 * 1024),
}

# Modules that the daemon imports only if connectors need them: if the worker has imported the module that is the key.
_CONVERTERS = "spark_tasks.pipeline.converters"
OPTIONAL = {
    "confluent_kafka.schema_registry": ("spark_tasks.registry.warm",),
    "pyruhvro": (f"{_CONVERTERS}.avro.converter", f"{_CONVERTERS}.avro.columns", f"{_CONVERTERS}.avro.codec"),
    "ptars": (f"{_CONVERTERS}.protobuf.converter", f"{_CONVERTERS}.protobuf.columns", f"{_CONVERTERS}.protobuf.codec"),
    "jsonschema_rs": ("jsonschema_rs", f"{_CONVERTERS}.json_schema.converter"),
    "datafusion": ("spark_tasks.pipeline.transforms.sql", "datafusion"),
}
NEEDED = "HEELER_PRELOAD"  # environment variable: modules, separated by commas


_PYTHON = "PYSPARK_PYTHON"  # which heeler itself sets
_kept: dict[str, str] = {}


def keep_environment() -> None:
    """Saves the environment: processes started from now on get it (`inherited`). To be called before plugins are
    imported: what their modules set up in the worker's own process is not for the processes of other connectors.
    """
    _kept.update(os.environ)


def inherited() -> dict[str, str]:
    """Returns the environment for new processes: the current one if no other was kept."""
    if not _kept:
        return dict(os.environ)
    return {**_kept, **({_PYTHON: os.environ[_PYTHON]} if _PYTHON in os.environ else {})}


def needed() -> str:
    """Returns the value of NEEDED: the modules of OPTIONAL that this worker's connectors need so far."""
    return ",".join(name for known, names in OPTIONAL.items() if known in sys.modules for name in names)


def python_path() -> str:
    """Returns PYTHONPATH for the Python workers: the folder of this package, then the previous value. It does not have
    plugin folders, whose modules are found by their names (spark_tasks/spaces.py).
    """
    here = str(Path(spark_tasks.__file__).resolve().parent.parent)
    before = [p for p in inherited().get("PYTHONPATH", "").split(os.pathsep) if p]
    return os.pathsep.join(dict.fromkeys([here, *before]))
