"""Asks Java's AvroData. `python -m tests.golden.avro.record`: writes golden.jsonl.gz anew.

`python -m tests.golden.avro.record --cases 9000 --seed 7`: compares so many new values, writes nothing; the exit status
is 1 where heeler differs.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from heeler.embedded_kafka.jars import KAFKA_VERSION, JarSet
from tests.golden.avro.ours import difference
from tests.golden.transforms.cases import case
from tests.golden.transforms.java import run_driver

HERE = Path(__file__).parent
RECORDED = 600
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


def answers(given: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What Java makes of them."""
    lines = run_driver([json.dumps(one) for one in given], source=HERE / "Driver.java", jar_set=_JARS)
    return [{**one, "java": json.loads(line)} for one, line in zip(given, lines, strict=True)]


def main(arguments: Sequence[str] | None = None) -> int:
    """See the module."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--cases", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args(arguments)
    found = answers(list(itertools.islice(values(asked.seed), asked.cases or RECORDED)))
    if not asked.cases:
        text = "\n".join(json.dumps(one, ensure_ascii=False) for one in found) + "\n"
        (HERE / "golden.jsonl.gz").write_bytes(gzip.compress(text.encode(), 9, mtime=0))
        return 0
    wrong = [told for told in map(difference, found) if told is not None]
    sys.stdout.write("".join(f"{told}\n" for told in wrong) + f"{len(found)} values, {len(wrong)} differ\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
