"""Stored task configurations contain no provided values, regardless of how the plugin uses them."""

from __future__ import annotations

import pytest

from spark_tasks.plugins.config_providers import ConfigTransformer, EnvVarConfigProvider
from spark_tasks.tasks.configs import make_task_configs

VALUES = {"PASSWORD": "s3cr3t-value", "LONGER": "s3cr3t-value-and-more", "PIN": "1234", "ONE": "1"}
RAW = {"connector.class": "c.Mine", "tasks.max": "${env:ONE}", "password": "${env:PASSWORD}", "more": "${env:LONGER}",
       "pin": "${env:PIN}", "topics": "s3cr3t-values"}  # fmt: skip


class Plugin:
    def __init__(self, answer):
        self.answer = answer

    def task_configs(self, max_tasks):
        assert max_tasks == 1
        return [self.answer]


@pytest.mark.parametrize(("key", "value", "stored"), [
    ("password", "s3cr3t-value", "${env:PASSWORD}"),
    ("login", "s3cr3t-value", "${env:PASSWORD}"),
    ("url", "db://me:s3cr3t-value@h?x=s3cr3t-value-and-more", "db://me:${env:PASSWORD}@h?x=${env:LONGER}"),
    ("code", "1234", "${env:PIN}"), ("number", "12345", "12345"), ("part", "1", "1"),
    ("topics", "s3cr3t-values", "s3cr3t-values"),  # the user's own words
])  # fmt: skip
def test_task_configs_replace_provided_values_by_placeholders(key, value, stored):
    transformer = ConfigTransformer({"env": EnvVarConfigProvider(VALUES)})
    resolved = transformer.transform(RAW, "c")
    (task,) = make_task_configs("c", Plugin({key: value}), "c.Mine", RAW, resolved)
    assert task == {key: stored, "task.class": "c.MineTask", "topics": "s3cr3t-values"}
    assert transformer.transform(task)[key] == value, "the task gets what the plugin said"
