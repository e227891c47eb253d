"""Validation answers what Java Kafka Connect 4.3.1 answered, key by key; tests/golden/validate has the requests."""

from __future__ import annotations

import re

import pytest

from heeler.worker.part_settings import trial_settings
from spark_tasks.config import restart_policy
from spark_tasks.errors import ConfigError
from spark_tasks.plugins import PluginNotFoundError, Plugins
from spark_tasks.plugins.config_providers import ConfigTransformer, EnvVarConfigProvider, FileConfigProvider
from spark_tasks.validation import NoConnectorClassError, plugin_config, validate_connector
from tests.golden.validate import cases
from tests.rigs.java_plugins import java_like

ANSWERS = cases.load()
PLUGINS = java_like()
WORKER = {
    "group.id": "val",
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.storage.StringConverter",
}
TRANSFORMER = ConfigTransformer({"env": EnvVarConfigProvider({"HOME": "/root"}), "file": FileConfigProvider()})
# Where we answer differently on purpose (or the request never reaches validation).
ELSEWHERE = {
    "class_mismatch",  # REST compares the path with the config
    "converter_abstract",  # our converters' base class is not a plugin, so its name is unknown
    "null_values",  # Java forgets the error of a null if the key is the plugin's own
    "override_bad_value",  # Java: 500 for the whole request
    "placeholders",  # Java shows what a provider gave
}


def run(name):
    kind, _, config = cases.CASES[name]
    return validate_connector(
        config, plugins=PLUGINS, worker=trial_settings({**WORKER, **cases.WORKERS[kind]}),
        resolve=TRANSFORMER.transform)


def normal(body):
    """Without what may differ: documentation, recommended plugins, the words of regex errors, what we add to Java's
    line where a class is unknown, the order of sub-keys that Java takes from a hash table."""
    shown = []
    for entry in body["configs"]:
        definition, value = entry["definition"], entry["value"]
        if definition:
            definition = {k: v for k, v in definition.items() if k != "documentation"}
        if value:
            errors = [re.sub(r"Invalid regex: (?s:.*)", "Invalid regex", e) for e in value["errors"]]
            errors = [re.sub(r"(?<= could not be found\.)\n(?s:.*)", "", e) for e in errors]
            value = {**value, "errors": errors}
            if definition and definition["type"] == "CLASS":
                value["recommended_values"] = []
        shown.append((definition, value))
    framework = [e for e in shown if not _sub_key(e)]
    return {**body, "configs": framework + sorted((e for e in shown if _sub_key(e)), key=_name)}


def _name(entry):
    return (entry[1] or entry[0])["name"]


def _sub_key(entry):
    name = _name(entry)
    return ".override." in name or (".converter." in name and not name.endswith(".plugin.version"))


WRONG = [name for name in cases.CASES if name.startswith("wrong ")]  # about heeler's own transforms


@pytest.mark.parametrize("transform", cases.WRONG)
def test_options_of_transforms_are_refused_as_java_does(transform):
    for name in (name for name in WRONG if name.split()[1] == transform):
        config = cases.CASES[name][2]
        ours = validate_connector(config, plugins=Plugins(), worker=trial_settings(WORKER),
                                  resolve=TRANSFORMER.transform).to_json()
        assert errors_of(ours) == errors_of(ANSWERS[name]["body"]), name


def errors_of(body):
    found = {entry["value"]["name"]: entry["value"]["errors"] for entry in body["configs"] if entry["value"]["errors"]}
    regex = re.compile(r"Invalid regex: (?s:.*)")
    return body["error_count"], {key: [regex.sub("Invalid regex", one) for one in said] for key, said in found.items()}


@pytest.mark.parametrize("name", sorted(set(cases.CASES) - ELSEWHERE - set(WRONG)))
def test_validation_responses_equal_javas(name):
    answer = ANSWERS[name]
    if answer["status"] == 200:
        ours, javas = normal(run(name).to_json()), normal(answer["body"])
        ours["groups"], javas["groups"] = set(ours["groups"]), set(javas["groups"])
        assert ours == javas
        return
    message = answer["body"]["message"].partition(": ")[2]  # after the Java class name
    with pytest.raises((ConfigError, PluginNotFoundError)) as caught:
        run(name)
    assert str(caught.value).startswith(message.partition(", available")[0])


def test_available_connectors_are_listed_by_their_names():
    """Java describes each of them in a PluginDesc{…}; the words before that are the same."""
    with pytest.raises(PluginNotFoundError) as caught:
        run("unknown_class")
    before, _, expected = ANSWERS["unknown_class"]["body"]["message"].partition(": ")[2].partition("are: ")
    said, _, listed = str(caught.value).partition("\n")[0].partition("are: ")
    assert said == before
    assert listed.split(", ") == re.findall(r"PluginDesc\{klass=class ([\w.$]+)", expected)


def test_a_config_without_a_connector_class_is_refused():
    with pytest.raises(NoConnectorClassError, match=r"Connector config \{name=n\} contains no connector type"):
        run("no_class")


def test_an_invalid_client_setting_is_an_error_of_its_key():
    infos = run("override_bad_value")
    assert infos.error_count == 1
    assert infos.errors() == [ANSWERS["override_bad_value"]["body"]["message"].partition(": ")[2]]


def test_responses_equal_javas_except_for_provided_values():
    ours, javas = normal(run("placeholders").to_json()), normal(ANSWERS["placeholders"]["body"])
    differing = [(o[1], j[1]) for o, j in zip(ours["configs"], javas["configs"], strict=True) if o != j]
    assert [(o["name"], o["value"], j["value"]) for o, j in differing] == [("file", "${env:HOME}", "/root")]


def test_null_values_are_refused():
    infos = run("null_values")
    assert infos.errors() == ["Null value can not be supplied as the configuration value."] * 2
    assert infos.error_count == 2


def test_the_message_of_a_400_response_equals_javas():
    infos = validate_connector(cases.CREATE["create_bad"], plugins=PLUGINS, worker=trial_settings(WORKER))
    assert infos.message() == ANSWERS["create_bad"]["body"]["message"]


@pytest.mark.parametrize("plugin", [p for p in cases.PLUGIN_CONFIGS if ANSWERS[f"config {p}"]["status"] == 200])
def test_the_keys_of_plugins_equal_javas(plugin):
    ours = [{k: v for k, v in key.items() if k != "documentation"} for key in plugin_config(PLUGINS, plugin)]
    assert ours == ANSWERS[f"config {plugin}"]["body"]


def test_an_unknown_plugin_is_reported_as_by_java():
    with pytest.raises(PluginNotFoundError, match=re.escape(ANSWERS["config Nope"]["body"]["message"])):
        plugin_config(PLUGINS, "Nope")


@pytest.mark.parametrize("name", ["org.apache.kafka.common.config.provider.FileConfigProvider", "FileConfigProvider"])
def test_a_config_provider_has_no_keys_to_show(name):
    with pytest.raises(ConfigError, match=re.escape(ANSWERS[f"config {name}"]["body"]["message"])):
        plugin_config(Plugins(), name)


def test_a_prefix_alone_overrides_nothing():
    """As in Kafka Connect, which leaves the key out of its response."""
    config = {**cases.SOURCE, "producer.override.": "x"}
    infos = validate_connector(config, plugins=PLUGINS, worker=trial_settings({**WORKER, **cases.WORKERS["none"]}))
    assert infos.error_count == 0
    assert "producer.override." not in [entry["value"]["name"] for entry in infos.to_json()["configs"]]


def test_keys_of_self_healing_are_listed_only_for_connectors_that_use_them():
    config = {"name": "n", "connector.class": "FileStreamSink", "topics": "t", "file": "x"}
    plain = validate_connector(config, plugins=PLUGINS, worker=trial_settings(WORKER))
    assert not [v for v in plain.to_json()["configs"] if v["value"]["name"] in restart_policy.CONNECTOR.keys]
    more = validate_connector({**config, "errors.restart.policy": "failed", "errors.restart.limit": "0"},
                              plugins=PLUGINS, worker=trial_settings(WORKER))
    values = {v["value"]["name"]: v for v in more.to_json()["configs"]}
    shown = {name: value for name, value in values.items() if name in restart_policy.CONNECTOR.keys}
    assert shown.keys() == restart_policy.CONNECTOR.keys.keys()
    assert shown["errors.restart.policy"]["definition"]["group"] == "Error Handling"
    assert more.error_count == plain.error_count + 1
    assert "errors.restart.limit" in shown["errors.restart.limit"]["value"]["errors"][0]
