"""Asks Java's AvroData. `python -m tests.golden.avro.record`: writes golden.jsonl.gz anew.

`python -m tests.golden.avro.record --cases 9000 --seed 7`: compares so many new values, writes nothing; the exit status
is 1 where heeler differs.
"""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from heeler.embedded_kafka.jars import KAFKA_VERSION, JarSet
from tests.golden.avro.ours import difference
from tests.golden.beside_java import Recording
from tests.golden.transforms.cases import case

OPTIONS = ((False, True), (True, True), (False, False))  # enhanced, meta
_JARS = JarSet("Avro data 2.6.13", (
    ("io.apicurio", "apicurio-registry-utils-converter", "2.6.13.Final"),
    ("org.apache.avro", "avro", "1.12.1"),
    ("org.apache.kafka", "connect-json", KAFKA_VERSION), ("org.slf4j", "slf4j-simple", "1.7.36"),
))  # fmt: skip


def values(seed: int) -> Iterator[dict[str, Any]]:
    """Random values that are not null, with names that Avro allows, and the options to write them with."""
    for number in itertools.count():
        made = case(seed, number)
        for record in made["records"] if made["schemas"] else ():
            text = json.dumps(json.loads(record["value"])) if record["value"] else "null"
            if text != "null" and json.loads(text)["payload"] is not None:
                enhanced, meta = OPTIONS[number % len(OPTIONS)]
                allowed = text.replace('"\\u00e4"', '"ae"').replace('"a.b"', '"a_b"')
                yield {"text": allowed, "enhanced": enhanced, "meta": meta}


if __name__ == "__main__":
    sys.exit(Recording(Path(__file__).parent, _JARS, values, difference, "values").main())
