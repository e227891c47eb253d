"""Placeholders in configurations and the three providers that Kafka ships."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_tasks.config.masking import process_secrets
from spark_tasks.errors import ConfigError
from spark_tasks.plugins.config_providers import (
    BUILT_IN,
    ConfigData,
    ConfigProvider,
    ConfigTransformer,
    DirectoryConfigProvider,
    EnvVarConfigProvider,
    FileConfigProvider,
    load_providers,
)

JAVA = "org.apache.kafka.common.config.provider."


class Fake(ConfigProvider):
    """Knows everything as path/key, says how long it holds, and counts its lookups."""

    def __init__(self, ttl_ms=None, unknown=()):
        self.ttl_ms = ttl_ms
        self.unknown = unknown
        self.lookups = []

    def get(self, path, keys=None):
        self.lookups.append((path, frozenset(keys)))
        return ConfigData({k: f"<{path}/{k}>" for k in keys if k not in self.unknown}, self.ttl_ms)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("${p:path:key}", "<path/key>"),
        ("${p:key}", "</key>"),
        ("a-${p:x:k}-b-${p:y:k}", "a-<x/k>-b-<y/k>"),
        ("${p:/etc/a:b:c}", "</etc/a/b:c>"),  # the key takes the rest
        ("${other:path:key}", "${other:path:key}"),
        ("${p:path:missing}", "${p:path:missing}"),
        ("${p}", "${p}"),
        ("$p:path:key", "$p:path:key"),
        ("", ""),
        (None, None),
    ],
)
def test_placeholders_are_replaced_and_what_is_not_known_stays(value, expected):
    assert ConfigTransformer({"p": Fake(unknown=["missing"])}).transform({"k": value}) == {"k": expected}


class Given(ConfigProvider):
    """Returns what it is given, whatever it is."""

    def __init__(self, result):
        self.result = result

    def get(self, path, keys=None):
        return self.result


def test_a_key_whose_value_is_null_is_not_known():
    provider = Given(ConfigData({"a": None, "b": "x", "unused": 7}))
    assert ConfigTransformer({"p": provider}).transform({"k": "${p:a}${p:b}"}) == {"k": "${p:a}x"}


@pytest.mark.parametrize(("result", "message"), [
    (ConfigData({"key": 7}), "The config provider p must return a string for key key of path 'here', not int"),
    (None, "The config provider p must return ConfigData for path 'here', not NoneType"),
    ({"key": "x"}, "The config provider p must return ConfigData for path 'here', not dict"),
])
def test_a_provider_that_returns_something_else_is_named(result, message):
    with pytest.raises(ConfigError) as caught:
        ConfigTransformer({"p": Given(result)}).transform({"k": "${p:here:key}"})
    assert str(caught.value) == message


def test_each_path_is_read_once_for_all_keys():
    provider = Fake()
    ConfigTransformer({"p": provider}).transform({"a": "${p:f:x}${p:f:y}", "b": "${p:f:x}", "c": "${p:g:x}"})
    assert sorted(provider.lookups) == [("f", frozenset("xy")), ("g", frozenset("x"))]


def test_a_time_to_live_is_reported_for_connectors_with_config_reload():
    reported = []
    transformer = ConfigTransformer({"p": Fake(ttl_ms=500)}, on_ttl=lambda *a: reported.append(a))
    config = {"k": "${p:f:x}"}
    transformer.transform(config)
    assert reported == []
    transformer.transform({**config, "config.action.reload": "NONE"}, "c")
    assert reported == []
    transformer.transform(config, "c")
    assert reported == [("c", "f", 500)]


def test_provided_values_are_reported_with_their_keys():
    reported = []
    transformer = ConfigTransformer({"p": Fake(unknown=["no"])}, on_values=lambda *a: reported.append(a))
    found = transformer.transform({"a": "x${p:f:x}${p:f:y}", "b": "${p:z}", "c": "${p:f:no}", "d": "plain"}, "c")
    assert found.given == {"a": ["<f/x>", "<f/y>"], "b": ["</z>"]}
    assert reported == [("c", found.given)]
    assert transformer.transform({"d": "plain"}).given == {}


def test_provided_values_are_masked_by_default():
    ConfigTransformer({"p": Fake()}).transform({"a": "${p:path-of-the-test:x}"}, "c")
    assert process_secrets().mask("is <path-of-the-test/x>") == "is [hidden]"


@given(st.dictionaries(st.text(), st.text(alphabet="${}:pa")))
def test_without_providers_nothing_changes(config):
    assert ConfigTransformer({}).transform(config) == config


def test_file_provider_reads_java_properties(tmp_path):
    file = tmp_path / "s.properties"
    file.write_text("user=ann\npassword : p\\u00e4 ss=1\n# no\n", encoding="utf-8")
    provider = FileConfigProvider()
    provider.configure({})
    assert provider.get(str(file), {"password", "none"}).data == {"password": "pä ss=1"}
    assert provider.get(str(file)).data == {"user": "ann", "password": "pä ss=1"}
    assert provider.get("").data == {}
    with pytest.raises(ConfigError, match="Could not read properties from file /none"):
        provider.get("/none")


def test_files_that_could_exhaust_memory_or_be_waited_for_are_not_read(tmp_path):
    """A request may name any file that the provider may read."""
    os.mkfifo(tmp_path / "pipe")
    with (tmp_path / "large").open("wb") as large:
        large.truncate(1 << 40)
    provider = FileConfigProvider()
    for file, why in (("/dev/zero", "not a regular file"), (tmp_path / "pipe", "not a regular file"),
                      (tmp_path, "directory"), (tmp_path / "large", "more than 16 MiB")):
        with pytest.raises(ConfigError, match=f"Could not read properties from file {file}: .*{why}"):
            provider.get(str(file))
    with pytest.raises(ConfigError, match="more than 16 MiB"):
        DirectoryConfigProvider().get(str(tmp_path), {"large"})


def test_directory_provider_reads_regular_files(tmp_path):
    (tmp_path / "a").write_text("1\n")
    (tmp_path / "sub").mkdir()
    provider = DirectoryConfigProvider()
    assert provider.get(str(tmp_path), {"a", "sub", "b"}).data == {"a": "1\n"}
    assert provider.get(str(tmp_path / "a")).data == {}


@pytest.mark.parametrize("provider", [FileConfigProvider, DirectoryConfigProvider])
def test_allowed_paths_are_enforced(provider, tmp_path):
    allowed, other = tmp_path / "in", tmp_path / "inner"
    for folder in (allowed, other):
        folder.mkdir()
        (folder / "k").write_text("k=v")
    made = provider()
    made.configure({"allowed.paths": f"{allowed}"})

    def read(folder):
        return made.get(str(folder / "k" if provider is FileConfigProvider else folder), {"k"}).data

    assert read(allowed)
    assert read(other) == {}
    assert read(allowed / ".." / "inner") == {}
    for bad, why in (("relative", "is not absolute"), (str(tmp_path / "none"), "does not exist")):
        with pytest.raises(ConfigError, match=why):
            provider().configure({"allowed.paths": bad})


def test_environment_provider_returns_only_variables_that_match_its_pattern():
    provider = EnvVarConfigProvider({"DB_PASSWORD": "x", "OTHER": "y", "MY_DB_PASSWORD": "z"})
    provider.configure({"allowlist.pattern": "DB_.*"})
    assert provider.get("", {"DB_PASSWORD", "OTHER", "MY_DB_PASSWORD"}).data == {"DB_PASSWORD": "x"}
    with pytest.raises(ConfigError, match="Path is not supported"):
        provider.get("path", {"DB_PASSWORD"})
    with pytest.raises(ConfigError, match="not a regular expression"):
        EnvVarConfigProvider({}).configure({"allowlist.pattern": "("})


def test_providers_are_loaded_by_java_name_with_their_parameters(tmp_path, monkeypatch):
    monkeypatch.setenv("HEELER_TEST_SECRET", "s")
    (tmp_path / "f.properties").write_text("k=v")
    providers = load_providers(
        {
            "config.providers": "file, env",
            "config.providers.file.class": f"{JAVA}FileConfigProvider",
            "config.providers.file.param.allowed.paths": str(tmp_path),
            "config.providers.env.class": "EnvVarConfigProvider",
        },
        BUILT_IN.__getitem__,
    )
    config = {"a": f"${{file:{tmp_path}/f.properties:k}}", "b": "${env:HEELER_TEST_SECRET}", "c": "${file:/etc/x:k}"}
    assert ConfigTransformer(providers).transform(config) == {"a": "v", "b": "s", "c": "${file:/etc/x:k}"}


def test_a_negative_time_to_live_is_ignored():
    reported = []
    short = Fake()
    short.get = lambda path, _keys: ConfigData({"k": "v"}, int(path))
    transformer = ConfigTransformer({"v": short}, lambda *more: reported.append(more))
    transformer.transform({"a": "${v:-1:k}", "b": "${v:0:k}", "c": "${v:7:k}"}, "n")
    assert sorted(reported) == [("n", "0", 0), ("n", "7", 7)]


def test_a_plugin_provider_is_found_and_one_without_a_class_named():
    props = {"config.providers": "v", "config.providers.v.class": "my.Vault"}
    found = load_providers(props, {"my.Vault": Fake}.__getitem__)["v"]
    assert isinstance(found, Fake)
    assert found.name == "v"
    with pytest.raises(ConfigError, match=r"config\.providers\.v\.class"):
        load_providers({"config.providers": "v"}, {}.__getitem__)
