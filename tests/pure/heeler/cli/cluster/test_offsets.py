"""`heeler offsets`."""

from __future__ import annotations

import json

import pytest

from tests.rigs.cli_fake import run


def test_offsets_can_be_set_from_the_output_of_show(fake, tmp_path):
    now = [{"partition": {"file": "x"}, "offset": {"position": 7}}, {"partition": {"file": "y"}, "offset": {"at": 1}}]
    fake.answers["GET /connectors/c/offsets"] = (200, {"offsets": now})
    fake.answers["PATCH /connectors/c/offsets"] = (200, {"message": "altered"})
    file = tmp_path / "offsets.json"
    file.write_text(run(fake, "offsets", "show", "c", "-o", "json").stdout.replace("7", "0"))
    done = run(fake, "offsets", "set", "c", "--from", str(file), "-y").stdout
    assert '{"file": "x"}' in done
    assert '"y"' not in done  # it stays as it is
    assert fake.asked[-1][1]["offsets"][0] == {"partition": {"file": "x"}, "offset": {"position": 0}}
    file.write_text('\ufeff[{"partition": {"file": "\u65e5"}, "offset": null}]', encoding="utf-8")  # as by PowerShell
    assert "Nothing would change" in run(fake, "offsets", "set", "c", "--from", str(file), "--dry-run").stdout
    for text in ("[1]", "{", '{"offsets": [{"partition": 1}]}', "{}"):
        file.write_text(text)
        assert str(file) in run(fake, "offsets", "set", "c", "--from", str(file), "-y", code=2).stderr
    run(fake, "offsets", "set", "c", "t:0", code=2)


def test_a_source_gets_no_offsets_of_topics(fake):
    """Kafka Connect would keep them beside those of the source, which ignores them."""
    fake.answers["GET /connectors/c/offsets"] = (200, {"offsets": [{"partition": {"file": "x"}, "offset": {"at": 1}}]})
    assert "c is a source" in run(fake, "offsets", "set", "c", "t:0=5", "-y", code=2).stderr
    assert {request for request, _ in fake.asked} == {"GET /connectors/c/offsets"}


def place(topic, partition, offset):
    return {"partition": {"kafka_topic": topic, "kafka_partition": partition}, "offset": {"kafka_offset": offset}}


def test_partitions_are_in_the_order_of_their_numbers(fake):
    fake.answers["GET /connectors/c/offsets"] = (200, {"offsets": [place("t", 10, 1), place("t", 9, 2)]})
    assert [line.split()[0] for line in run(fake, "offsets", "show", "c").stdout.splitlines()[1:]] == ["t:9", "t:10"]
    done = run(fake, "offsets", "set", "c", "t:10=5", "t:9=5", "--dry-run").stdout
    assert [line.split()[0] for line in done.splitlines()[1:]] == ["t:9", "t:10"]
    source = [{"partition": {"stream": n}, "offset": {"at": 1}} for n in (10, 2)]
    fake.answers["GET /connectors/c/offsets"] = (200, {"offsets": source})
    done = run(fake, "offsets", "reset", "c", "--dry-run", "-o", "json").stdout
    assert [one["partition"]["stream"] for one in json.loads(done)["changes"]] == [2, 10]


def test_offsets_are_changed_with_one_document_for_programs(fake):
    fake.answers["GET /connectors/c/offsets"] = (200, {"offsets": [place("t", 0, 1)]})
    fake.answers["PATCH /connectors/c/offsets"] = (200, {"message": "altered"})
    fake.answers["DELETE /connectors/c/offsets"] = (200, {"message": "reset"})
    t0 = place("t", 0, 1)["partition"]

    def reported(*words):
        return json.loads(run(fake, "offsets", *words, "-y", "-o", "json").stdout)

    change = {"partition": t0, "now": {"kafka_offset": 1}, "then": {"kafka_offset": 2}}
    assert reported("set", "c", "t:0=2") == {"changes": [change], "message": "altered"}
    assert reported("set", "c", "t:0=1") == {"changes": []}
    assert reported("set", "c", "t:0=2", "--dry-run") == {"changes": [change]}
    assert reported("reset", "c") == {"changes": [{**change, "then": None}], "message": "reset"}
    fake.answers["GET /connectors/c/offsets"] = (200, {"offsets": []})
    assert reported("reset", "c") == {"changes": [], "message": "reset"}
    assert "c may store offsets outside Kafka. Reset it anyway?" in run(fake, "offsets", "reset", "c", code=2).stderr
    fake.answers["GET /connectors/c/offsets"] = (200, {"offsets": [place("t", 0, 1)]})
    assert "Reset 1 offset?" in run(fake, "offsets", "reset", "c", code=2).stderr


class TwoPartitions:
    """In place of Kafka: each topic has two partitions with offsets 3 to 9."""

    def __init__(self, settings):
        pass

    def partitions(self, *_, **__):
        return [0, 1]

    def offsets(self, places, which, **_):
        return dict.fromkeys(places, 3 if which == "earliest" else 9)

    def close(self):
        pass


@pytest.mark.parametrize(("to", "offset"), [("beginning", 3), ("earliest", 3), ("end", 9), ("latest", 9)])
def test_reset_moves_a_sink_but_not_its_dead_letters(fake, monkeypatch, to, offset):
    monkeypatch.setattr("spark_tasks.kafka.cluster.KafkaCluster", TwoPartitions)
    config = {"connector.class": "X", "topics.regex": ".*", "errors.deadletterqueue.topic.name": "dead"}
    fake.answers["GET /connectors/c/config"] = (200, config)
    fake.answers["GET /connectors/c/offsets"] = (200, {"offsets": [place("dead", 0, 5), place("t", 0, 5)]})
    done = json.loads(run(fake, "offsets", "reset", "c", "--to", to, "--dry-run", "-o", "json").stdout)
    assert [(one["partition"]["kafka_topic"], one["then"]["kafka_offset"]) for one in done["changes"]] == [
        ("t", offset), ("t", offset)]


@pytest.mark.parametrize("config", [{"connector.class": "X", "topic": "t"}, {"connector.class": "X", "topics": " "}])
def test_only_a_sink_with_topics_is_moved(fake, config):
    fake.answers["GET /connectors/c/config"] = (200, config)
    fake.answers["GET /connectors/c/offsets"] = (200, {"offsets": []})
    assert "c is not a sink, or has not read any topic yet" in run(
        fake, "offsets", "reset", "c", "--to", "earliest", "-y", code=2).stderr


def test_a_sink_cannot_be_reset_to_an_offset(fake):
    assert "heeler offsets set CONNECTOR TOPIC:PARTITION=OFFSET" in run(
        fake, "offsets", "reset", "c", "--to", "7", code=2).stderr
