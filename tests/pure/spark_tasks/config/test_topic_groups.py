"""Settings of new topics (KIP-158), as Kafka Connect 4.3.1 reads them: each expectation was taken from its
TopicCreationGroup. Only names of keys are longer in messages: Java leaves out `topic.creation.GROUP.` for some.
"""

from __future__ import annotations

import pickle
import re
from typing import Any

import pytest

from spark_tasks.config.topic_groups import TopicGroups, TopicSettings
from spark_tasks.errors import ConfigError

DEFAULT = {"default.partitions": "3", "default.replication.factor": "1"}
PLAIN = TopicSettings(3, 1)


def _groups(settings: dict[str, str]) -> TopicGroups | None:
    return TopicGroups.of({"name": "c", **{f"topic.creation.{key}": value for key, value in settings.items()}})


def _settings(settings: dict[str, str], topic: str) -> TopicSettings:
    groups = _groups(settings)
    assert groups is not None
    assert pickle.loads(pickle.dumps(groups)).settings_of(topic) == groups.settings_of(topic)
    return groups.settings_of(topic)


def test_groups_that_another_process_gets_are_equal_and_hold_no_compiled_patterns() -> None:
    """Compiled ones need the same release of the library `regex`."""
    groups = _groups({**DEFAULT, "groups": "g", "g.include": "a.*, b", "g.exclude": "ab"})
    pickled = pickle.dumps(groups)
    assert pickle.loads(pickled) == groups
    assert b"_regex" not in pickled


def test_without_settings_the_brokers_create_topics() -> None:
    assert _groups({}) is None


@pytest.mark.parametrize(("settings", "topic", "expected"), [
    ({}, "a", PLAIN),
    ({"default.partitions": " 4 ", "default.replication.factor": "-1"}, "a", TopicSettings(4, -1)),
    ({"default.partitions": "+5"}, "a", TopicSettings(5, 1)),
    ({"default.retention.ms": " 9 ", "default.compression.type": ""}, "a",
     TopicSettings(3, 1, {"retention.ms": " 9 ", "compression.type": ""})),
    ({"default.include": "z", "default.exclude": "a"}, "a", PLAIN),
    ({"default.include": "("}, "a", PLAIN),  # no topic needs to match the default group
    ({"groups": ""}, "a", PLAIN),
    ({"groups": "default", "default.include": "z"}, "a", PLAIN),
    ({"groups": "g"}, "a", PLAIN),  # without include, no topic matches
    ({"groups": "g", "g.include": "a", "g.partitions": "7"}, "a", TopicSettings(7, 1)),
    ({"groups": "g", "g.include": "a", "g.partitions": "7"}, "ab", PLAIN),
    ({"groups": "g", "g.include": "a, ab", "g.exclude": "a.", "g.partitions": "7"}, "a", TopicSettings(7, 1)),
    ({"groups": "g", "g.include": "a, ab", "g.exclude": "a.", "g.partitions": "7"}, "ab", PLAIN),
    ({"groups": " g , h,", "g.include": "a", "h.include": "a.*", "h.cleanup.policy": "compact", "h.partitions": "-1"},
     "ab", TopicSettings(-1, 1, {"cleanup.policy": "compact"})),
    ({"groups": "g,h", "g.include": "a", "h.include": "a.*", "h.partitions": "8"}, "a", PLAIN),  # the first one
    ({"groups": "g", "g.include": "a", "default.retention.ms": "9"}, "a", PLAIN),  # only the numbers are inherited
    ({"groups": "a,a.b", "a.include": "a", "a.b.include": "b", "a.b.retention.ms": "7"}, "b",
     TopicSettings(3, 1, {"retention.ms": "7"})),
    ({"groups": "g", "g.include": "a", "g.replication.factor": "-1"}, "a", TopicSettings(3, -1)),
    ({"x.include": "("}, "a", PLAIN),
])  # fmt: skip
def test_a_topic_has_the_settings_of_its_group(
    settings: dict[str, str], topic: str, expected: TopicSettings
) -> None:
    assert _settings(DEFAULT | settings, topic) == expected


def test_a_pattern_that_takes_too_long_to_match_is_an_error() -> None:
    """It used a core until the process was killed."""
    topic = "a" * 40
    with pytest.raises(ConfigError, match=r"topic\.creation\.g\.include: with the topic a+, it takes too long"):
        _settings(DEFAULT | {"groups": "g", "g.include": "b,(a|a)*[bc]"}, topic)


def test_a_setting_that_is_null_is_not_set() -> None:
    nulls: Any = {"groups": None, "default.retention.ms": None}
    assert _settings({**DEFAULT, "g.include": "a", "g.partitions": "7", **nulls}, "a") == PLAIN
    with pytest.raises(ConfigError, match=r"Missing required .*default\.partitions"):
        _groups({**DEFAULT, **dict[str, Any]({"default.partitions": None})})


@pytest.mark.parametrize(("settings", "message"), [
    ({"groups": "g"},
     'Missing required configuration "topic.creation.default.replication.factor" which has no default value.'),
    ({"default.replication.factor": "1"},
     'Missing required configuration "topic.creation.default.partitions" which has no default value.'),
    (DEFAULT | {"groups": "g,g"},
     "Invalid value [g, g] for configuration topic.creation.groups: Duplicate alias provided."),
    (DEFAULT | {"default.partitions": "0"},
     ("Invalid value 0 for configuration topic.creation.default.partitions: Number of partitions must be positive, or "
      "-1 to use the broker's default")),
    (DEFAULT | {"groups": "g", "g.replication.factor": "-3"},
     ("Invalid value -3 for configuration topic.creation.g.replication.factor: Replication factor must be positive and "
      "not larger than the number of brokers in the Kafka cluster, or -1 to use the broker's default")),
    (DEFAULT | {"default.replication.factor": "40000"},
     "Invalid value 40000 for configuration topic.creation.default.replication.factor: Not a number of type SHORT"),
    *((DEFAULT | {"default.partitions": text},
       f"Invalid value {text} for configuration topic.creation.default.partitions: Not a number of type INT")
      for text in ("x", "3000000000", "1_0", "")),
    (DEFAULT | {"groups": "g", "g.partitions": ""},
     "Invalid value  for configuration topic.creation.g.partitions: Not a number of type INT"),
    (DEFAULT | {"groups": "g", "g.include": "a, ("},
     "Invalid value [a, (] for configuration topic.creation.g.include: Syntax error in regular expression: "),
    (DEFAULT | {"groups": "g", "g.exclude": "["},
     "Invalid value [[] for configuration topic.creation.g.exclude: Syntax error in regular expression: "),
])  # fmt: skip
def test_wrong_settings_of_any_group_are_errors(settings: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match="^" + re.escape(message)):
        _groups(settings)
