"""Exactly the bad rows are left out, the others keep their order, and many bad rows cost little more than few."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from spark_tasks.pipeline.errors.bisection import FailedPartError, good_parts


@st.composite
def batches(draw):
    size = draw(st.integers(0, 3000))
    bad = draw(st.sets(st.integers(0, max(size - 1, 0)), max_size=40)) if size else set()
    return size, bad


class Stage:
    """Fails if the stretch contains a bad row.

    `tells`: for each bad row, whether the error names it; `guesses`: which row, or rows, the error suspects. `written`:
    rows of the calls that succeeded.
    """

    def __init__(self, bad, tells, guesses=lambda _: None):
        self.bad, self.tells, self.guesses = sorted(bad), tells, guesses
        self.tries, self.rows, self.written = 0, 0, 0

    def __call__(self, begin, end):
        assert begin < end
        self.tries, self.rows = self.tries + 1, self.rows + end - begin
        found = [row for row in self.bad if begin <= row < end]
        if found:
            guesses = self.guesses(found[0])
            guesses = [] if guesses is None else [guesses] if isinstance(guesses, int) else guesses
            row = found[0] - begin if found[0] in self.tells else None
            raise FailedPartError(row, found[0], [guess - begin for guess in guesses])
        self.written += end - begin
        return range(begin, end)


def outcome(size, stage, spacing=None, *, tried=False):
    """`tried`: all rows at once, before."""
    refused, failed = [], None
    if tried and size:
        try:
            return list(stage(0, size)), refused
        except FailedPartError as error:
            failed = error
    parts = list(good_parts(size, stage, lambda row, error: refused.append((row, str(error))), spacing, failed))
    return [row for part in parts for row in part], refused


@given(batches(), st.none() | st.integers(1, 5000), st.data())
def test_exactly_the_bad_rows_are_left_out(batch, spacing, data):
    size, bad = batch
    tells = data.draw(st.sets(st.sampled_from(sorted(bad)))) if bad else set()
    guesses = st.integers(-9, size) | st.lists(st.integers(0, size), unique=True).map(sorted)
    wrong = data.draw(st.dictionaries(st.sampled_from(sorted(bad)), st.none() | guesses)) if bad else {}
    stage = Stage(bad, tells, lambda row: wrong.get(row, row))
    good, refused = outcome(size, stage, spacing, tried=data.draw(st.booleans()))
    assert stage.written == len(good)
    assert good == [row for row in range(size) if row not in bad]
    assert refused == [(row, str(row)) for row in sorted(bad)], "in order, each with its own error"


@given(st.integers(1, 500), st.integers(2, 30))
def test_a_stage_that_fails_only_on_large_batches_loses_no_rows(size, max_rows):
    def attempt(begin, end):
        if end - begin > max_rows:
            raise FailedPartError(None)
        return range(begin, end)

    assert outcome(size, attempt) == (list(range(size)), [])


def evenly(guesses=lambda _: None, tells=(), spacing=None):
    """Of 100,000 rows 100 bad ones: calls for each of them, rows of all calls for each row, and rows written."""
    stage = Stage(range(500, 100_000, 1000), tells, guesses)
    outcome(100_000, stage, spacing)
    return stage.tries / 100, stage.rows / 100_000, stage.written


def test_bad_rows_need_few_extra_attempts():
    clean = Stage((), ())
    outcome(100_000, clean)
    assert (clean.tries, clean.rows) == (1, 100_000)
    one = Stage({70_000}, {70_000})
    outcome(100_000, one)
    assert one.tries <= 3
    assert one.rows <= 200_000
    bad = range(500, 100_000, 1000)
    for found, calls, rows in (
        (evenly(tells=bad), 2.2, 3),  # their error names them
        (evenly(), 13, 2.7),  # it says nothing
        (evenly(spacing=1000), 13, 1.7),  # it says nothing, and bad ones are expected
        (evenly(lambda row: row, spacing=1000), 5.2, 1.4),  # it quotes the first one
        (evenly(lambda row: range(row, 100_000, 1000), spacing=1000), 2.2, 1.05),  # and others have the same
    ):
        assert found[0] <= calls
        assert found[1] <= rows
        assert found[2] == 100_000 - len(bad), "none is written twice"


@given(st.integers(0, 999), st.integers(-1, 1001) | st.lists(st.integers(0, 1001), min_size=1, unique=True).map(sorted))
def test_guessing_stops_after_a_few_wrong_guesses(bad, guess):
    stage, silent = Stage({bad}, (), lambda _: guess), Stage({bad}, ())
    assert outcome(1000, stage) == outcome(1000, silent)
    assert stage.tries <= silent.tries + 4


def test_an_error_of_another_kind_is_propagated():
    refused = []

    def attempt(begin, end):
        raise ConnectionRefusedError(end - begin)

    try:
        list(good_parts(10, attempt, lambda row, error: refused.append((row, error))))
    except ConnectionRefusedError:
        assert refused == []
    else:
        raise AssertionError
