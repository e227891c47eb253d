"""Asks Java. `python -m tests.golden.transforms.record`: writes the recorded results and configs.json anew.

`python -m tests.golden.transforms.record --cases 100000 --seed 7`: compares so many new cases, writes nothing; the exit
status is 1 where heeler differs. `--first 25927 --cases 1`: that one again. `--together`: cases whose records are in
one batch.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.golden.transforms.cases import KEY_AND_VALUE, TRANSFORMS, T, case
from tests.golden.transforms.java import run_driver
from tests.golden.transforms.ours import difference, run
from tests.golden.transforms.together import as_in_buckets, batch_case, run_together

HERE = Path(__file__).parent
RECORDED, RECORDED_TOGETHER = 1000, 400
# seeds and numbers of cases that once differed
MENDED = ((1, 25927), (1, 70773), (1, 92998), (1, 26494), (1, 38391), (1, 39164), (20261124, 2308),
          (20261124, 57483), (20261125, 37561), (20261125, 66436), (811, 56752), (20261124, 33600), (811, 54396),
          (811, 81297), (1126, 52005), (90125, 3572))
CHUNK = 5000
CLASSES = [
    *(f"{T}{name}${part}" for name in sorted(KEY_AND_VALUE) for part in ("Key", "Value")),
    *(f"{T}{name}" for name in sorted(set(TRANSFORMS) - KEY_AND_VALUE)),
    *(f"{T}predicates.{name}" for name in ("HasHeaderKey", "RecordIsTombstone", "TopicNameMatches")),
]


def differences(one: dict[str, Any], java: dict[str, Any], *, together: bool = False) -> list[str]:
    """What heeler makes of a case, against what Java made of it. `together`: of a batch_case in one batch."""
    ours = run_together(one) if together else run(one)
    if "records" not in java or "records" not in ours:
        found = [difference(java, ours)]
    else:
        pairs = zip(java["records"], ours["records"], strict=True)
        found = [_difference(*pair) if together else difference(*pair) for pair in pairs]
    return [difference for difference in found if difference is not None]


def _difference(java: dict[str, Any], ours: dict[str, Any]) -> str | None:
    ordered = {key: ours[key] for key in java if key in ours}
    return None if as_in_buckets(java) == as_in_buckets(ordered) else difference(java, ours)


def record() -> None:
    """Write the files."""
    recorded = [*((0, number) for number in range(RECORDED)), *MENDED]
    answers = run_driver([json.dumps(case(*one)) for one in recorded])
    _write("golden.jsonl.gz", answers)
    _write("batches.jsonl.gz", run_driver([json.dumps(batch_case(0, n)) for n in range(RECORDED_TOGETHER)]))
    configs = [json.loads(line) for line in run_driver(CLASSES, "configs")]
    (HERE / "configs.json").write_text(json.dumps({one["class"]: one["keys"] for one in configs}, indent=0) + "\n")


def _write(name: str, answers: list[str]) -> None:
    (HERE / name).write_bytes(gzip.compress(("\n".join(answers) + "\n").encode(), 9, mtime=0))


def compare(seed: int, begin_at: int, count: int, *, together: bool = False) -> int:
    """How many of the cases from this number on differ; each is printed."""
    make = batch_case if together else case
    wrong, begin, stop = 0, time.monotonic(), begin_at + count
    for first in range(begin_at, stop, CHUNK):
        numbers = range(first, min(first + CHUNK, stop))
        cases = [make(seed, number) for number in numbers]
        for number, one, answer in zip(numbers, cases, run_driver([json.dumps(c) for c in cases]), strict=True):
            found = differences(one, json.loads(answer), together=together)
            wrong += bool(found)
            for line in found:
                sys.stdout.write(f"case {seed}:{number}: {line[:600]}\n")
        sys.stdout.write(f"seed {seed}: {numbers.stop} cases, {wrong} differ, {time.monotonic() - begin:.0f} s\n")
        sys.stdout.flush()
    return wrong


def main(arguments: Sequence[str] | None = None) -> int:
    """See the module."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--cases", type=int, default=0)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--together", action="store_true")
    asked = parser.parse_args(arguments)
    if not asked.cases:
        record()
        return 0
    return 1 if compare(asked.seed, asked.first, asked.cases, together=asked.together) else 0


if __name__ == "__main__":
    sys.exit(main())
