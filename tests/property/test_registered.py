"""Hostile records with a schema of a registry: each costs only itself, in all three formats."""

import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_tasks.errors import DataError
from tests.rigs.guid_registry import guid_registry
from tests.rigs.hostile_records import PIECES, SCHEMAS, read_apart, reader

NAMES = pytest.mark.parametrize("name", list(SCHEMAS))


@pytest.fixture(scope="module")
def readers():
    with guid_registry() as registry:
        yield {name: reader(registry, name) for name in SCHEMAS}


@st.composite
def damaged(draw, good, pieces):
    """Bytes that have little in common with a record, or a record with some other bytes in it, perhaps cut off."""
    base = bytearray(draw(st.sampled_from([b"", *good])))
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(base)))
        base[at : at + draw(st.integers(0, 4))] = draw(st.binary(max_size=8) | st.sampled_from(pieces))
    return bytes(base[: draw(st.integers(0, len(base)))] if draw(st.booleans()) else base)


@NAMES
@settings(deadline=None)
@given(data=st.data())
def test_hostile_records_affect_only_themselves(readers, name, data):
    """Whatever else is in their batch, all others are read, and they are bad, or have the same value as alone."""
    converter, head, good = readers[name]
    hostile = data.draw(st.lists(damaged(good, PIECES[SCHEMAS[name][0]]), min_size=1, max_size=12))
    records = [one for payload in hostile for one in (head + payload, head + data.draw(st.sampled_from(good)), None)]
    records += [data.draw(st.binary(max_size=4)), head[:4]]
    values, errors = read_apart(converter, records)
    assert {type(error) for error in errors.values() if not isinstance(error, DataError)} == set()
    assert sorted([*values, *errors]) == list(range(len(records)))
    assert not errors.keys() & set(range(1, len(records) - 2, 3)), "a neighbour is bad"
    alone = [read_apart(converter, [record]) for record in records]
    assert {row for row, (_, bad) in enumerate(alone) if bad} == set(errors)
    assert {row: repr(found[0]) for row, (found, _) in enumerate(alone) if found} == {
        row: repr(value) for row, value in values.items()}


@pytest.mark.integration  # a process of its own
def test_declared_lengths_and_counts_take_no_memory():
    """Those of records with a few bytes, up to 2^63. In a process, as one that has too little ends."""
    done = subprocess.run([sys.executable, "-m", "tests.rigs.hostile_records"], capture_output=True, text=True,
                          timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    took = dict(line.split("\t") for line in done.stdout.splitlines())
    assert took.keys() == SCHEMAS.keys()
    assert {name: took[name] for name in took if int(took[name]) > 200} == {}
