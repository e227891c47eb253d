"""tasks.max=auto and tasks.auto are for sinks, and need valid bounds; topics and dead letters as in Java."""

from __future__ import annotations

import pytest

from heeler.worker.part_settings import trial_settings
from spark_tasks.config.auto_tasks import stored
from spark_tasks.plugins import Plugins
from spark_tasks.validation import validate_connector

STRING = "org.apache.kafka.connect.storage.StringConverter"
WORKER = {"group.id": "g", "key.converter": STRING, "value.converter": STRING, "config.storage.topic": "configs",
          "offset.storage.topic": "offsets", "status.storage.topic": "statuses"}
SINK = {"name": "s", "connector.class": "FileStreamSink", "topics": "t", "file": "/tmp/x"}  # noqa: S108
SOURCE = {"name": "s", "connector.class": "FileStreamSource", "topic": "t"}


def infos(config):
    return validate_connector(config, plugins=Plugins(), worker=trial_settings(WORKER)).to_json()


def errors(config):
    return {one["value"]["name"]: one["value"]["errors"] for one in infos(config)["configs"] if one["value"]["errors"]}


@pytest.mark.parametrize(("config", "key", "words"), [
    ({**SOURCE, "tasks.auto": "true"}, "tasks.auto", "only the number of a sink's tasks"),
    ({**SINK, "tasks.auto": "true", "tasks.auto.min": "3", "tasks.max": "2"}, "tasks.auto.min",
     "must not exceed tasks.max"),
    ({**SINK, "tasks.auto": "true", "tasks.auto.lag": "0"}, "tasks.auto.lag", "at least 1"),
    ({**SOURCE, "tasks.weight": "1001"}, "tasks.weight", "no more than 1000"),
    ({**SINK, "tasks.auto": "perhaps"}, "tasks.auto", "perhaps"),
    ({**SINK, "tasks.max": "auto"}, "tasks.max", "auto"),
    ({**SINK, "tasks.max": "auto", "tasks.auto.max": "0"}, "tasks.auto.max", "from 1 to"),
    ({**SINK, "tasks.max": "auto", "tasks.auto.max": "many"}, "tasks.auto.max", "Not a number of type INT"),
    ({**SINK, "tasks.max": "auto", "tasks.auto.max": "2", "tasks.auto.min": "3"}, "tasks.auto.min",
     "must not exceed tasks.auto.max, which is 2"),
    ({**SINK, "tasks.max": "auto", "tasks.auto.max": "2", "tasks.auto": "false"}, "tasks.auto.max", "tasks.auto=false"),
    ({**SINK, "tasks.max": "4", "tasks.auto.max": "2"}, "tasks.auto.max", "tasks.max=auto, but tasks.max is 4"),
    ({**SINK, "tasks.auto.max": "2"}, "tasks.auto.max", "tasks.max=auto, but tasks.max is not set"),
    ({**SOURCE, "tasks.max": "auto", "tasks.auto.max": "2"}, "tasks.max", "Invalid value auto"),
])
def test_invalid_scaling_settings_are_reported(config, key, words):
    found = errors(stored(config))
    assert list(found) == [key]
    assert words in found[key][0]


def test_the_error_for_auto_without_a_maximum_says_what_to_set():
    (hint,) = errors({**SINK, "tasks.max": " Auto "})["tasks.max"]
    assert "Invalid value  Auto  for" in hint
    assert "set tasks.max=auto, and tasks.auto.max to their maximum number" in hint
    assert len(errors({**SINK, "tasks.max": "many"})["tasks.max"]) == 2


def test_the_keys_are_listed_only_for_connectors_that_use_them():
    def auto(config):
        names = {one["value"]["name"] for one in infos(config)["configs"]}
        return {name for name in names if name.startswith("tasks.auto")}

    assert errors({**SINK, "tasks.auto": "true", "tasks.max": "4"}) == {}
    assert auto(SINK) == set()
    assert len(auto({**SINK, "tasks.auto": "true"})) == 5
    assert errors(stored({**SINK, "tasks.max": "auto", "tasks.auto.max": "8", "tasks.auto.min": "2"})) == {}
    assert errors({**SOURCE, "tasks.auto": "false"}) == {}


def test_a_dead_letter_topic_is_compared_with_topics_and_with_their_pattern():
    """Also if both are set, as by Java."""
    both = "topics and topics.regex are mutually exclusive options, but both are set."
    found = errors({**SINK, "topics.regex": "d.*", "errors.deadletterqueue.topic.name": "dlq"})
    assert found["topics"] == [both]
    matched = ("The DLQ topic 'dlq' may not be matched by the regex for the topics ('topics.regex=d.*') consumed by "
               "the connector")
    assert found["topics.regex"] == [both, matched]
    invalid = {**SINK, "topics": "", "topics.regex": "d(", "errors.deadletterqueue.topic.name": "d"}
    assert [len(messages) for messages in errors(invalid).values()] == [1]


@pytest.mark.parametrize("config", [SINK, SOURCE])
def test_a_dead_letter_topic_that_cannot_be_one_is_refused(config):
    """Letters in the config topic could become connectors: a letter has the key and the value of its record."""
    key = "errors.deadletterqueue.topic.name"
    own = "this Connect cluster stores its own data in this topic; use another one"
    for internal in ("configs", "offsets", "statuses"):
        assert errors({**config, key: f" {internal} "}) == {
            key: [f"Invalid value {internal} for configuration {key}: {own}"]}
    [message] = errors({**config, key: "bad topic!"})[key]
    assert "'bad topic!' is not a valid name of a topic: it may have 1 to 249 letters" in message
    assert errors({**config, key: "dead"}) == {}
    assert key not in {one["value"]["name"] for one in infos({**SOURCE, key: "dead"})["configs"]}


def test_the_settings_of_a_sources_queue_are_checked_before_its_tasks_fail_with_them():
    queue = "errors.deadletterqueue."
    either = "Expected value to be either true or false"
    wrong = {f"{queue}topic.replication.factor": "abc", f"{queue}context.headers.enable": "1"}
    assert errors({**SOURCE, **wrong}) == {
        f"{queue}topic.replication.factor": [
            f"Invalid value abc for configuration {queue}topic.replication.factor: Not a number of type SHORT"],
        f"{queue}context.headers.enable": [
            f"Invalid value 1 for configuration {queue}context.headers.enable: {either}"],
    }


def test_a_pattern_that_takes_too_long_to_match_the_dead_letter_topic_is_refused():
    """The validation never ended, and used a core."""
    topic = "a" * 40
    config = {**SINK, "topics.regex": "(a|a)*[bc]", "errors.deadletterqueue.topic.name": topic}
    config.pop("topics")
    message = (f"Invalid value (a|a)*[bc] for configuration topics.regex: with the topic {topic}, it takes too long to "
               "match; simplify it (nested repetitions such as (a+)+ are slow)")
    assert errors(config) == {"topics.regex": [message]}
