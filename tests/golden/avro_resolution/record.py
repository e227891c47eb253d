"""Asks Java's Avro. `python -m tests.golden.avro_resolution.record`: writes golden.jsonl.gz anew.

`python -m tests.golden.avro_resolution.record --cases 9000 --seed 7`: compares so many new pairs of schemas, writes
nothing; the exit status is 1 where heeler differs.
"""

from __future__ import annotations

import sys
from pathlib import Path

from heeler.embedded_kafka.jars import JarSet
from tests.golden.avro_resolution.cases import pairs
from tests.golden.avro_resolution.ours import difference
from tests.golden.beside_java import Recording

_JARS = JarSet("Avro 1.12.1", (("org.apache.avro", "avro", "1.12.1"), ("org.slf4j", "slf4j-simple", "1.7.36")))

if __name__ == "__main__":
    sys.exit(Recording(Path(__file__).parent, _JARS, pairs, difference, "pairs of schemas").main())
