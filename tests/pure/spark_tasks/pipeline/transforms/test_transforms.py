"""What a chain makes of plugins: what transforms and predicates return, and what is wrong in their configurations."""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from spark_tasks.errors import ConfigError, ConnectError
from spark_tasks.pipeline.sink_pipeline import SinkPipeline
from spark_tasks.pipeline.transforms.base import Predicate, Transform
from spark_tasks.pipeline.transforms.chain import Stage, TransformError
from spark_tasks.pipeline.transforms.columns_or_rows import ColumnsOrRows, NotInColumnsError
from spark_tasks.pipeline.transforms.predicates import TopicNameMatches
from spark_tasks.pipeline.transforms.regex_router import RegexRouter
from tests.rigs.chains import SCHEMALESS, T, chain, rows, sink
from tests.rigs.raw_records import worker


class Returning(Transform):
    """Returns `of(batch)`."""

    of = None

    def configure(self, configs):
        pass

    def apply(self, batch):
        return self.of(batch)


def returning(of):
    transform = Returning()
    transform.of = of
    records = pa.RecordBatch.from_pydict({"topic": ["t"] * 4, "offset": [0, 1, 2, 3], "value": list("abcd")})
    return list(Stage("r", "acme.Returning", transform).apply(records))


@pytest.mark.parametrize(("of", "why"), [
    (lambda batch: [batch, 5], "a list with an element of type int; return a pyarrow.RecordBatch or a list of them"),
    (lambda _: {"value": 1}, "a dict; return a pyarrow.RecordBatch"),
    (lambda _: None, "a NoneType; return a pyarrow.RecordBatch"),
    (lambda batch: pa.Table.from_batches([batch]), "a Table; return a pyarrow.RecordBatch"),
    (lambda batch: (one for one in [batch, None]), "a generator with an element of type NoneType"),
    (lambda batch: batch.rename_columns(["x"] * 3),
     r"x, x, x \(doubled: x; unknown: x; missing: topic, offset, value\); return the columns topic, offset, value"),
    (lambda batch: batch.drop_columns(["offset"]), r"columns topic, value \(missing: offset\)"),
    (lambda batch: batch.append_column("value", batch.column("value")), r"\(doubled: value\)"),
    (lambda batch: [batch, batch.append_column("more", batch.column("value"))], r"\(unknown: more\)"),
])  # fmt: skip
def test_a_transform_that_returns_no_batches_of_records_is_named(of, why):
    with pytest.raises(TransformError, match=r"transforms\.r \(acme\.Returning\) .*: Returning returned .*" + why):
        returning(of)


def test_a_transform_may_add_columns_of_records_and_a_source_may_lack_some():
    (found,) = returning(lambda batch: batch.append_column("key", batch.column("value")))
    assert found.schema.names == ["topic", "offset", "value", "key"]
    transform = Returning()
    transform.of = lambda batch: batch.drop_columns(["topic"])
    batch = pa.RecordBatch.from_pydict({"topic": ["t"], "value": ["v"]})
    assert rows(Stage("r", "acme.Returning", transform).apply(batch)) == ["v"]
    transform.of = lambda batch: batch.drop_columns(["value"])
    with pytest.raises(TransformError, match=r"Returning returned .* \(missing: value\)"):
        list(Stage("r", "acme.Returning", transform).apply(batch))


def test_a_record_without_a_topic_is_the_bad_record():
    topics = pa.array(["t", "u", None, "v"]).dictionary_encode()
    with pytest.raises(TransformError, match="Returning returned a record whose topic is null; set a topic") as bad:
        returning(lambda batch: batch.set_column(0, "topic", topics.take(batch.column("offset"))))
    assert rows([bad.value.record]) == ["c"]


class Answering(Predicate):
    """Returns `answer`."""

    answer = None

    def configure(self, configs):
        pass

    def test(self, _):
        return self.answer


def answered(answer, *, negate):
    predicate, transform = Answering(), Returning()
    predicate.answer = answer
    transform.of = lambda batch: batch.set_column(0, "value", pc.utf8_upper(batch.column("value")))
    batch = pa.RecordBatch.from_pydict({"value": list("abcd")})
    return rows(Stage("r", "acme.Returning", transform, predicate, negate).apply(batch))


@pytest.mark.parametrize("negate", [False, True])
@pytest.mark.parametrize(("answer", "what"), [
    ([True] * 4, "list of 4 values"), (pa.array([True]), "BooleanArray of 1 values"),
    (pa.array([True] * 5), "BooleanArray of 5 values"), (pa.array([1] * 4), "Int64Array of 4 values"),
    (True, "bool"), (None, "NoneType"),
])  # fmt: skip
def test_a_predicate_that_does_not_answer_for_each_record_is_named(answer, what, negate):
    words = rf"transforms\.r .*: the predicate Answering returned a {what} for \d records; return a pyarrow"
    with pytest.raises(TransformError, match=words):
        answered(answer, negate=negate)


class WordlessError(Exception):
    def __str__(self):
        raise RuntimeError("no text")


def test_an_error_whose_text_cannot_be_read_is_that_of_a_record():
    """It failed the task, also if bad records are tolerated."""
    def refuse(batch):
        if "c" in batch.column("value").to_pylist():
            raise WordlessError
        return batch

    with pytest.raises(TransformError, match=r"offset 2: WordlessError: its message cannot be shown") as bad:
        returning(refuse)
    assert bad.value.part.row == 2
    with pytest.raises(TransformError, match="WordlessError: its message cannot"):
        list(Stage("r", "acme.Returning", Returning(), Wordless()).apply(pa.RecordBatch.from_pydict({"value": ["a"]})))


class Wordless(Predicate):
    def configure(self, configs):
        pass

    def test(self, batch):
        raise WordlessError(batch)


def test_records_of_which_a_predicate_does_not_know_are_not_selected():
    """They were lost, as a filter with null drops records."""
    answer = pa.array([True, None, False, None])
    assert answered(answer, negate=False) == ["A", "b", "c", "d"]
    assert answered(answer, negate=True) == ["a", "B", "C", "D"]


def router():
    transform = RegexRouter()
    transform.configure({"regex": "(a|aa)+[bc]", "replacement": "x"})
    return Stage("r", "RegexRouter", transform)


def guarded():
    predicate, transform = TopicNameMatches(), Returning()
    predicate.configure({"pattern": "(a|aa)+[bc]"})
    transform.of = lambda batch: batch
    return Stage("r", "Returning", transform, predicate)


@pytest.mark.parametrize(("stage", "key"), [(router(), "regex"), (guarded(), "pattern")])
def test_a_pattern_that_takes_long_is_an_error_of_its_record(stage, key):
    """The task hung in it."""
    topics = pa.array(["ab", "a" * 40, "b"]).dictionary_encode()
    batch = pa.RecordBatch.from_pydict({"topic": topics, "value": list("abc")})
    with pytest.raises(TransformError, match=f"with the topic a{{40}}, {key} takes too long to match; simpl") as bad:
        list(stage.apply(batch))
    assert bad.value.part.row == 1
    assert rows(stage.apply(batch.slice(0, 1))) == ["a"]


@pytest.mark.parametrize(("name", "options", "why"), [
    ("SetSchemaMetadata$Value", {}, "Neither schema name nor version configured"),
    ("ExtractField$Value", {"field": "a.`b", "field.syntax.version": "V2"}, "Incomplete backtick pair"),
])  # fmt: skip
def test_a_transform_that_cannot_be_configured_is_named(name, options, why):
    with pytest.raises(ConfigError, match=rf"^transforms\.t0 \({re.escape(T + name)}\): {why}"):
        sink(chain((name, options)), [b"1"])


def test_a_predicate_that_cannot_be_configured_is_named():
    config = chain(("Filter", {"predicate": "p"}), predicates="p",
                   **{"predicates.p.type": T + "predicates.HasHeaderKey", "predicates.p.name": ""})  # fmt: skip
    with pytest.raises(ConfigError, match=r"^predicates\.p \(.*HasHeaderKey\): Invalid value"):
        sink(config, [b"1"])


def test_a_plugin_that_raises_any_error_when_it_is_configured_is_named(tmp_path):
    (tmp_path / "acme_careless.py").write_text(
        "from heeler import Transform\nclass Careless(Transform):\n    def apply(self, batch):\n        return batch\n"
        "    def configure(self, configs):\n        int(configs['n'])\n")  # fmt: skip
    config = {**SCHEMALESS, "transforms": "t", "transforms.t.type": "Careless", "transforms.t.n": "x"}
    pipeline = SinkPipeline(worker(**{"plugin.path": str(tmp_path)}), config)
    with pytest.raises(ConnectError, match=r"^transforms\.t \(acme_careless\.Careless\) .*: ValueError: invalid"):
        assert pipeline.stages


def test_a_missing_predicate_is_reported():
    with pytest.raises(ConfigError, match=r"transforms\.t0\.predicate: there is no predicate 'p'"):
        sink(chain(("Filter", {"predicate": "p"})), [b"1"])


class Rows(ColumnsOrRows):
    """Changes records one by one."""

    def configure(self, configs):
        pass

    def columns(self, batch):
        raise NotInColumnsError(batch)

    def record(self, record):
        record.value = [record.value]


def test_a_lack_of_memory_for_changed_records_makes_no_bad_record(monkeypatch):
    """With errors.tolerance=all, the records were lost."""
    def lacking(*_, **__):
        raise pa.lib.ArrowMemoryError("malloc failed")

    batch = pa.RecordBatch.from_pydict({"topic": ["t"], "offset": [0], "value": ["a"]})
    monkeypatch.setattr(pa, "array", lacking)
    with pytest.raises(MemoryError):
        list(Stage("r", "acme.Rows", Rows()).apply(batch))
