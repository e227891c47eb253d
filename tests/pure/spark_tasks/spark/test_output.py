"""What the worker passes on of the processes that it starts."""

from __future__ import annotations

import io

import pytest

from spark_tasks.config.masking import process_secrets
from spark_tasks.spark.output import pass_on


def test_what_a_started_process_writes_is_written_without_what_the_worker_hides(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    process_secrets().learn("c", ["of-the-output-test"])
    pass_on(io.BytesIO(b"ERROR of-the-output-test\nnot \xff text\nno end"))
    assert capsys.readouterr().err == "ERROR [hidden]\nnot \ufffd text\nno end"

    def closed(_: str) -> int:
        raise ValueError("I/O operation on closed file")

    monkeypatch.setattr("sys.stderr.write", closed)
    output = io.BytesIO(b"one\ntwo\n")
    pass_on(output)  # it must not wait for a reader
    assert output.closed
