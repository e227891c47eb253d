"""The environment of new processes: what plugins have set in the worker's is not for them."""

from __future__ import annotations

import subprocess
import sys

_PLUGIN_SETS_IT = """
import os
from spark_tasks.spark.environment import keep_environment, python_path
keep_environment()
os.environ["PYTHONPATH"] = "/a/plugin's"
print(python_path())
"""


def test_the_python_path_is_that_of_the_kept_environment() -> None:
    answer = subprocess.run([sys.executable, "-c", _PLUGIN_SETS_IT], check=True, capture_output=True, text=True)
    assert "/a/plugin's" not in answer.stdout
    assert answer.stdout.strip()
