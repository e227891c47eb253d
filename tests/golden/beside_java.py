"""The command of a folder here that records what Java makes of random cases, or compares other cases with heeler."""

from __future__ import annotations

import argparse
import gzip
import itertools
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from heeler.embedded_kafka.jars import JarSet
from tests.golden.transforms.java import run_driver

RECORDED = 600


@dataclass(frozen=True, slots=True)
class Recording:
    """`folder` has a Driver.java, which prints what Java makes of each line. `cases(seed)` has no end. `difference`
    returns what differs in heeler, or None.
    """

    folder: Path
    jars: JarSet
    cases: Callable[[int], Iterator[dict[str, Any]]]
    difference: Callable[[dict[str, Any]], str | None]
    called: str  # what the cases are, in the plural

    def answers(self, given: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """What Java makes of them."""
        driver = self.folder / "Driver.java"
        lines = run_driver([json.dumps(one) for one in given], source=driver, jar_set=self.jars)
        return [{**one, "java": json.loads(line)} for one, line in zip(given, lines, strict=True)]

    def main(self, arguments: Sequence[str] | None = None) -> int:
        """Writes golden.jsonl.gz; with `--cases`, compares that many and returns 1 if one differs."""
        parser = argparse.ArgumentParser()
        parser.add_argument("--cases", type=int, default=0)
        parser.add_argument("--seed", type=int, default=1)
        asked = parser.parse_args(arguments)
        found = self.answers(list(itertools.islice(self.cases(asked.seed), asked.cases or RECORDED)))
        if not asked.cases:
            text = "\n".join(json.dumps(one, ensure_ascii=False) for one in found) + "\n"
            (self.folder / "golden.jsonl.gz").write_bytes(gzip.compress(text.encode(), 9, mtime=0))
            return 0
        wrong = [told for told in map(self.difference, found) if told is not None]
        sys.stdout.write("".join(f"{told}\n" for told in wrong) + f"{len(found)} {self.called}, {len(wrong)} differ\n")
        return 1 if wrong else 0
