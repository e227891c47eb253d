"""Environment variables for the Python workers and for the daemon that forks them, and its optional imports."""

from __future__ import annotations

import sys
from collections.abc import Mapping

# Libraries read these when they are imported. They keep them from starting threads in the process that forks.
ENVIRONMENT: Mapping[str, str] = {
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "NUMBA_NUM_THREADS": "1",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
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


def needed() -> str:
    """Returns the value of NEEDED: the modules of OPTIONAL that this worker's connectors need so far."""
    return ",".join(name for known, names in OPTIONAL.items() if known in sys.modules for name in names)
