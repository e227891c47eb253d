"""Pipelines of Python connectors with a part in Java; the host is simulated."""

from __future__ import annotations

import json
import socket
import struct
import threading

import pyarrow as pa
import pytest

from spark_tasks.data.columns import RAW_SCHEMA, in_order
from spark_tasks.errors import ConnectError, RetriableError, is_permanent
from spark_tasks.host_frames import BATCH, HEAD, message
from spark_tasks.pipeline import java_chain
from spark_tasks.pipeline.java_chain import JavaFirstPipeline, JavaLastPipeline, JavaPart
from spark_tasks.plugins.chain_cut import Cut
from tests.rigs.host_frames import packed

CONNECT = "org.apache.kafka.connect."
JSON, STRING = f"{CONNECT}json.JsonConverter", f"{CONNECT}storage.StringConverter"
INT8, TEXT = '{"type":"int8","optional":true}', '{"type":"string","optional":true}'


class Host:
    """Answers each frame with what the next of `answers` makes of the frame's meta and number of records; None closes
    the connection.
    """

    def __init__(self, folder):
        (folder / "secret").write_text("s")
        self.answers, self.received = [], []
        self._server = socket.socket(socket.AF_UNIX)
        self._server.bind(str(folder / "socket"))
        self._server.listen()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection):
        with connection:
            self.received += [json.loads(self._read(connection)[1]) for _ in range(2)]
            while True:
                kind, body = self._read(connection)
                if kind is None:
                    return
                assert kind == BATCH
                rows, size, sections, _ = struct.unpack_from("<iiii", body)
                answer = self.answers.pop(0)(json.loads(body[16 + 8 * sections:][:size]), rows)
                if answer is None:
                    return
                if isinstance(answer, dict):
                    connection.sendall(message(0, answer))
                else:
                    connection.sendall(HEAD.pack(BATCH, 1, len(answer)) + bytes(answer))

    @staticmethod
    def _read(connection):
        head = connection.recv(HEAD.size, socket.MSG_WAITALL)
        if not head:
            return None, b""
        kind, _, size = HEAD.unpack(head)
        return kind, connection.recv(size, socket.MSG_WAITALL)

    def close(self):
        self._server.close()


@pytest.fixture
def host(tmp_path):
    host = Host(tmp_path)
    yield host
    host.close()
    while java_chain.OPEN:
        java_chain.OPEN.popitem()[1].close()


def part(tmp_path, cut, kind="sink", **connector):
    found = JavaPart(kind, "c", 0, "token", connector, cut)
    found.folder = str(tmp_path)
    return found


def raw(*rows):
    return pa.RecordBatch.from_pylist(
        [{"offset": 10 + n, "timestamp": 5, "key": key, "value": value} for n, (key, value) in enumerate(rows)],
        schema=RAW_SCHEMA)


def bad(row, stage, executing, message="no"):
    return {"row": row, "stage": stage, "executing": executing, "class": "x.Bad", "message": message, "trace": "at y"}


def answer(*records, rows, errors=(), schemas=None):
    whole = packed([("t", 0, 5, key, value, []) for key, value in records], rows=list(rows), errors=list(errors),
                   schemas=schemas if schemas is not None else [(None, None)] * len(records))
    return lambda _meta, _rows: whole


class Refused(list):
    def __call__(self, failure):
        self.append((failure.row, failure.stage.name, failure.class_name, failure.error_class, failure.message))


def test_records_of_a_sink_come_from_java(host, tmp_path):
    """A record that Java drops, two that its stages refuse, one whose key Python's converter refuses, two schemas."""
    cut = Cut((), (), frozenset({"value"}))
    config = {"key.converter": JSON, "key.converter.schemas.enable": "false", "value.converter": "java.X"}
    pipeline = JavaFirstPipeline({}, config, cut, part(tmp_path, cut, **config))
    refused, given = Refused(), raw((b"1", b"a"), (b"1", b"b"), (b"1", b"c"), (b"{", b"d"), (b"1", b"e"), (b"1", None))
    last = [(b"1", b"5"), (b"{", b'"x"'), (b"1", b"7"), (b"1", None)]
    schemas = [(None, INT8), (None, TEXT), (None, INT8), (None, None)]
    host.answers += [
        answer(rows=[0], errors=[bad(1, "VALUE_CONVERTER", "java.X"), bad(2, "TRANSFORMATION", "java.T")]),
        answer(rows=[0], errors=[bad(1, "TRANSFORMATION", "java.T")]),
        answer(*last, rows=[0, 1, 2, 3], schemas=schemas),
        answer(last[0], *last[2:], rows=[0, 1, 2], schemas=[schemas[0], *schemas[2:]]),
    ]
    batches = in_order(pipeline.to_connect_by_schema("t", 0, given, refused))
    found = [row for batch in batches for row in batch.to_pylist()]
    assert [(row["offset"], row["key"], row["value"]) for row in found] == [(10, 1, 5), (14, 1, 7), (15, 1, None)]
    assert refused[:2] == [
        (1, "VALUE_CONVERTER", "java.X", "x.Bad", "no"), (2, "TRANSFORMATION", "java.T", "x.Bad", "no")]
    assert [one[:3] for one in refused[2:]] == [(3, "KEY_CONVERTER", JSON)]
    hello, order = host.received[:2]
    assert hello == {"op": "hello", "secret": "s"}
    assert (order["op"], order["kind"], order["lease"], order["converted"]) == ("chain", "sink", "token", ["value"])
    assert order["connector"]["key.converter"] == f"{CONNECT}converters.ByteArrayConverter"


def test_dead_letters_have_javas_stack_trace():
    error = java_chain.JavaStageError.of(bad(0, "TRANSFORMATION", "java.T"))
    assert (str(error), error.java_class, error.__notes__) == ("no", "x.Bad", ["at y"])


def test_a_lost_host_is_looked_up_again_and_exceptions_are_reported(host, tmp_path):
    cut = Cut((), (), frozenset({"key", "value"}))
    java = part(tmp_path, cut)
    pipeline = JavaFirstPipeline({}, {"key.converter": "java.X", "value.converter": "java.X"}, cut, java)
    failed = {"op": "failed", "class": "x.Boom", "message": "no", "trace": "at y"}
    host.answers += [lambda *_: None, lambda *_: failed, lambda *_: {**failed, "permanent": True},
                     answer((None, None), rows=[0])]
    for kind, words, permanent in ((RetriableError, "has ended", False), (ConnectError, "x.Boom: no\nat y", False),
                                   (ConnectError, "x.Boom: no\nat y", True)):
        with pytest.raises(kind, match=words) as raised:
            list(pipeline.to_connect_batches("t", 0, raw((b"k", b"v"))))
        assert is_permanent(raised.value) is permanent
    assert len(list(pipeline.to_connect_batches("t", 0, raw((b"k", b"v"))))) == 1
    java.folder = str(tmp_path / "other")
    with pytest.raises(RetriableError, match="is not available"):
        list(pipeline.to_connect_batches("t", 0, raw((b"k", b"v"))))


def test_records_of_a_source_go_through_java(host, tmp_path):
    cut = Cut((), (), frozenset({"value"}))
    config = {"topic": "t", "key.converter": STRING, "value.converter": "java.X"}
    pipeline = JavaLastPipeline({}, config, cut, part(tmp_path, cut, "source", **config), rows=True)
    metas = []

    def answered(*errors, records=(), rows=()):
        def to(meta, count):
            metas.append((meta["cut"], count))
            return packed(records, rows=rows, errors=list(errors), schemas=[(None, None)] * len(records))
        return to

    host.answers += [answered(bad(1, "VALUE_CONVERTER", "java.X")),
                     answered(records=[("u", -1, 5, None, b"1", []), ("v", 3, 5, None, b"2", [])], rows=[0, 1])]
    refused = Refused()
    found = [(topic, places and places.to_pylist(), part.column("value").to_pylist())
             for topic, places, part in pipeline.to_raw(pa.RecordBatch.from_pydict({"n": [1, 2, 3]}), refused)]
    assert found == [("u", None, [b"1"]), ("v", [3], [b"2"])]
    assert [one[0] for one in refused] == [1]
    assert [count for _, count in metas] == [3, 2]
    assert metas[0][0]["key"] == {"json": False, "schema": None}
    assert metas[0][0]["value"]["json"]
    assert json.loads(metas[0][0]["value"]["schema"])["type"] == "struct"


@pytest.mark.parametrize(("converter", "letter"), [(STRING, b"Struct{n=bad}"), ("java.X", b'{"n":"bad"}')])
def test_a_letter_is_what_the_connectors_converters_make_of_the_record_before_java(tmp_path, converter, letter):
    cut = Cut((), (), frozenset({"key", "value"}))
    config = {"topic": "t", "key.converter": STRING, "value.converter": converter, "transforms": "p",
              "transforms.p.type": "java.Picky"}
    last = JavaLastPipeline({}, config, cut, part(tmp_path, cut, "source", **config), rows=True)
    topic, places, one = last.original(pa.RecordBatch.from_pydict({"n": ["good", "bad"]}), 1)
    assert (topic, places, one.column("value").to_pylist()) == ("t", None, [letter])


def test_large_batches_are_sent_in_several_frames(host, tmp_path, monkeypatch):
    """The row of a refused record in the second frame is counted from the start of the batch."""
    monkeypatch.setattr(java_chain, "FRAME_BYTES", 1)
    cut = Cut((), (), frozenset({"key", "value"}))
    config = {"topic": "t", "key.converter": "java.X", "value.converter": "java.X"}
    first = JavaFirstPipeline({}, config, cut, part(tmp_path, cut, **config))
    whole, none = answer((None, None), rows=[0]), answer(rows=[], errors=[bad(0, "TRANSFORMATION", "java.T")])
    host.answers += [whole, none, whole]
    refused = Refused()
    batches = in_order(first.to_connect_by_schema("t", 0, raw((b"k", b"v"), (b"k", b"v")), refused))
    found = [row["offset"] for batch in batches for row in batch.to_pylist()]
    assert (found, [one[0] for one in refused]) == ([10], [1])
    last = JavaLastPipeline({}, config, cut, part(tmp_path, cut, "source", **config), rows=True)
    host.answers += [whole, none, whole]
    refused = Refused()
    found = list(last.to_raw(pa.RecordBatch.from_pydict({"n": [1, 2]}), refused))
    assert (len(found), [one[0] for one in refused]) == (1, [1])
