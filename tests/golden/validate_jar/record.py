"""Record what a worker of Java Kafka Connect answers: `python -m tests.golden.validate_jar.record`."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from heeler.embedded_kafka.broker import EmbeddedBroker
from tests.golden.validate_jar import ANSWERS, CASES, ask, keys
from tests.rigs.java_jars import plugin_folder
from tests.rigs.java_worker import JavaWorker
from tests.rigs.workers import worker_settings


def main() -> None:
    """Start broker and worker, validate everything, write answers.json."""
    with tempfile.TemporaryDirectory() as name, EmbeddedBroker() as broker:
        folder = Path(name)
        jars = plugin_folder(folder / "jars")
        settings = worker_settings(broker.bootstrap_servers, "choices", plugin_path=str(jars / "mode"))
        worker = JavaWorker(folder, settings)
        worker.start()
        try:
            found = {"keys": keys(worker.rest), **{case: ask(worker.rest, case) for case in CASES}}
        finally:
            worker.stop(grace=0)
    ANSWERS.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    sys.stdout.write(f"{len(found)} answers\n")


if __name__ == "__main__":
    main()
