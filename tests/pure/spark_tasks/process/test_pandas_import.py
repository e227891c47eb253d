"""PyArrow and the data plane without pandas, until other code imports it."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.integration  # processes of their own

PROGRAM = """
import sys
from spark_tasks.process.pandas_import import defer_pandas
{before}
defer_pandas()
import pyarrow as pa
{after}
there = "pandas" in sys.modules
import pandas, numpy
series = pandas.Series([1.0, numpy.nan])
print(there, pa.array(series).null_count, pa.array([1, None]).to_pandas().shape, pandas.__spec__.origin[-18:])
"""


DATA_PLANE = """import spark_tasks.sources.split, spark_tasks.sinks.split
from spark_tasks.spark.warm import warm_up
warm_up()
defer_pandas()  # again, as in a process that was forked"""


@pytest.mark.parametrize(("before", "after", "there"), [("", DATA_PLANE, False), ("import pandas", "", True)])
def test_pyarrow_supports_pandas_only_after_pandas_is_imported(before: str, after: str, there: bool) -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM.format(before=before, after=after)], capture_output=True,
                          text=True, check=False)
    assert (done.stdout, done.stderr) == (f"{there} 1 (2,) pandas/__init__.py\n", "")


def test_importing_pandas_fails_only_in_the_thread_that_postpones_it() -> None:
    program = """
import sys, threading
import spark_tasks.process.pandas_import as later
finder = later._PandasHook()
sys.meta_path.insert(0, finder)
def other():
    import pandas
    print(pandas.__name__)
try:
    import pandas
except ImportError as error:
    print(error)
thread = threading.Thread(target=other)
thread.start()
thread.join()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("pandas is not needed yet\npandas\n", "")
