"""Environment variables of the Python workers and of the daemon that forks them; what that one imports for few."""

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

# What few connectors need, by a module that the worker has imported once one of its connectors needs it.
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
    """What the connectors of this worker need of SELDOM, as far as it is known yet: the value of NEEDED."""
    return ",".join(name for known, names in SELDOM.items() if known in sys.modules for name in names)
