"""Environment variables of the Python workers and of the daemon that forks them; libraries that few workers need."""

from __future__ import annotations

import sys
from collections.abc import Mapping

# Read by the libraries when they are imported: none of them may start a thread in a process that forks.
ENVIRONMENT: Mapping[str, str] = {
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "NUMBA_NUM_THREADS": "1",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
}

# What the daemon imports for the sake of few connectors, by a module that the worker imports with such a connector.
_CONVERTERS = "spark_tasks.pipeline.converters"
SELDOM = {
    "confluent_kafka.schema_registry": ("spark_tasks.registry.warm",),
    "pyruhvro": (f"{_CONVERTERS}.avro.converter", f"{_CONVERTERS}.avro.columns", f"{_CONVERTERS}.avro.codec"),
    "ptars": (f"{_CONVERTERS}.protobuf.converter", f"{_CONVERTERS}.protobuf.columns", f"{_CONVERTERS}.protobuf.codec"),
    "jsonschema_rs": ("jsonschema_rs", f"{_CONVERTERS}.json_schema.converter"),
    "datafusion": ("spark_tasks.pipeline.transforms.sql", "datafusion"),
}
NEEDED = "HEELER_PRELOAD"  # in the environment: modules, with commas in between


def needed() -> str:
    """The value of NEEDED: the modules of SELDOM that this worker's connectors need, as known so far."""
    return ",".join(name for known, names in SELDOM.items() if known in sys.modules for name in names)
