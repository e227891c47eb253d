"""Connector files and the plan made from them: any file yields connectors or one clear error."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heeler.cli.configs.config_files import ENDINGS, ConfigFileError, parse_connectors
from heeler.cli.configs.masks import mask_of
from heeler.cli.configs.plan import Action, masked, plan
from heeler.cli.console.output import Format, data_text
from heeler.cli.console.safe_text import safe, unsafe

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
KEYS = st.sampled_from(["a", "b.password", "topics", "url", "x y", "é=:#"])
CONFIGS = st.dictionaries(KEYS, TEXT, max_size=5)
CLUSTERS = st.dictionaries(st.sampled_from("pqrs"), CONFIGS, max_size=4)
NAMES = TEXT.filter(lambda name: name.strip() == name and name)


def parsed(text, ending, stem="stem"):
    return parse_connectors(text, ending, stem, f"file{ending}")


@given(NAMES, CONFIGS, st.booleans())
def test_configs_round_trip_through_every_file_format(name, config, wrapped):
    config = {**config, "connector.class": "X"}
    item = {"name": name, "config": config} if wrapped else {**config, "name": name}
    for ending, text in ((".json", json.dumps(item)), (".yaml", data_text(item, Format.YAML))):
        [wanted] = parsed(text, ending)
        assert (wanted.name, wanted.config) == (name, {**config, "name": name})
    escaped = {k: json.dumps(v)[1:-1].replace('\\"', '"') for k, v in {**config, "name": name}.items()}
    lines = [f"{key.replace(' ', chr(92) + ' ').replace('=', chr(92) + '=').replace(':', chr(92) + ':')}="
             f"{value.replace(' ', chr(92) + 'u0020').replace(chr(92) + 'b', chr(92) + 'u0008')}\n"
             for key, value in escaped.items()]
    [wanted] = parsed("".join(lines), ".properties")
    assert dict(wanted.config) == {**config, "name": name}


ODD_TEXT = st.text(max_size=60) | st.text("[]{}:,-&*<!\"'\n a0x\\u=", max_size=60)


@given(st.sampled_from(ENDINGS), ODD_TEXT)
def test_any_text_is_a_connector_or_an_error_that_names_the_file(ending, text):
    try:
        assert all(wanted.config["name"] == wanted.name for wanted in parsed(text, ending))
    except ConfigFileError as error:
        said = str(error)
    else:
        return
    assert said.startswith(f"file{ending}: ")
    assert not unsafe(said)


@pytest.mark.parametrize(("ending", "text", "why"), [
    (".json", "[" * 100_000, "nested too deeply"),
    (".yaml", "[" * 500, "nested too deeply"),
    (".json", '{"connector.class": "X", "a": 1, "a": 2}', "key a appears twice"),
    (".yaml", "connector.class: X\na: 1\na: 2", "key a appears twice"),
    (".yaml", "connector.class: X\na:", "not null"),
    (".yaml", "name: [", "not valid YAML: expected the node content, but found"),
    (".yaml", "connector.class: X\na: ~", "not null"),
    (".json", '{"connector.class": "X", "a": [1]}', "not a list"),
    (".json", '{"connector.class": "X", "a": NaN}', "NaN is not JSON"),
    (".json", '{"connector.class": "X", "a": "\\ud800"}', "surrogate"),
    (".json", "[]", "it contains no connector"),
    (".json", "5", "not a str"),
    (".yaml", "!!python/object/apply:os.system ['true']", "could not determine a constructor"),
    (".yaml", "? [a]\n: b", "unhashable"),
    (".json", '{"config": {"connector.class": "X"}, "extra": 1}', "unknown key extra"),
    (".json", '{"name": "a", "config": {"name": "b", "connector.class": "X"}}', "name is a, but b"),
    (".json", '{"config": {"connector.class": "X"}, "initial_state": "ASLEEP"}', "initial_state must be"),
    (".json", '{"a": "b"}', "no connector.class"),
    (".properties", "connector.class=\\u00zz", "\\u00zz"),
    (".toml", "", "must end with one of"),
])
def test_invalid_config_files_are_refused_with_the_reason(ending, text, why):
    with pytest.raises(ConfigFileError) as error:
        parsed(text, ending)
    assert why in str(error.value)
    assert str(error.value).startswith(f"file{ending}: ")


def test_exponential_yaml_aliases_are_refused():
    lines = ["a0: &a0 {" + ", ".join(f"k{n}: v" for n in range(10)) + "}"]
    lines += [f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 10)}]}}" for n in range(1, 12)]
    with pytest.raises(ConfigFileError, match="entries in one mapping"):
        parsed("\n".join(lines), ".yaml")


@pytest.mark.parametrize(("merging", "reason"), [
    ("c: {<<: [" + "*a, " * 600 + "]}", "more than 10000 entries in one mapping"),
    ("c: [" + "{<<: *a}, " * 600 + "]", "with more than 500000 entries"),
])
def test_many_merges_of_a_long_mapping_are_refused(merging, reason):
    long = "a: &a {" + ", ".join(f"k{n}: v" for n in range(1000)) + "}\n"
    with pytest.raises(ConfigFileError, match=reason):
        parsed(long + merging, ".yaml")


def test_yaml_scalars_with_a_tag_keep_their_text():
    [one] = parsed('connector.class: X\na: !!int 010\nb: !!float 1e3\nc: !!bool on\nd: !!timestamp 2026-01-02\n'
                   'e: !!int ""\nf: !!timestamp never\n!!int 5: g\n', ".yaml")
    assert one.config == {"name": "stem", "connector.class": "X", "a": "010", "b": "1e3", "c": "on", "d": "2026-01-02",
                          "e": "", "f": "never", "5": "g"}


def test_yaml_scalars_keep_their_text_and_merges_are_supported():
    shared = ("- &base {connector.class: X, name: a, on: off, tasks.max: 010, at: 12:30:00, day: 2026-01-02}\n"
              "- {<<: *base, name: b, ratio: 1.50}\n")
    first, second = parsed(shared, ".yaml")
    assert {**first.config, "name": "b", "ratio": "1.50"} == second.config
    assert first.config["on"] == "off"
    assert (first.config["tasks.max"], first.config["at"]) == ("010", "12:30:00")
    two = "name: a\nconnector.class: X\n---\nname: b\nconnector.class: X\n"
    assert [w.name for w in parsed(two, ".yml")] == ["a", "b"]
    [json_one] = parsed('{"connector.class": "X", "a": 1e3, "b": true, "c": 1.50}', ".json")
    assert json_one.config == {"connector.class": "X", "a": "1e3", "b": "true", "c": "1.50", "name": "stem"}


@given(CLUSTERS, CLUSTERS, st.booleans())
def test_applying_the_plan_yields_the_wanted_connectors(wanted, there, prune):
    now = {name: dict(config) for name, config in there.items()}
    for change in plan(wanted, there, prune=prune):
        if change.action is Action.DELETE:
            del now[change.name]
            continue
        assert (change.name in there) == (change.action is not Action.CREATE)
        config = now.setdefault(change.name, {})
        for key in change.keys:
            assert key.before != key.after
            assert config.pop(key.key, None) == key.before
            if key.after is not None:
                config[key.key] = key.after
    assert now == ({} if prune else there) | wanted
    assert {c.action for c in plan(wanted, now, prune=prune)} <= {Action.NONE}


@given(st.text("abcdefgh", min_size=8, max_size=12), CONFIGS, CONFIGS)
def test_no_secret_is_in_a_masked_plan(secret, before, after):
    before = {**before, "db.password": f"old{secret}", "login": f"x old{secret} y"}
    after = {**after, "db.password": secret, "login": f"<{secret}>", "where": f"http://u:{secret}@h/"}
    for change in plan({"c": after}, {"c": before}):
        hidden = masked(change, mask_of(before, after))
        assert secret not in json.dumps(hidden.as_data())
        assert all(key.before != key.after for key in hidden.keys)


@given(st.recursive(st.text(max_size=8) | st.integers() | st.none(), lambda inner: st.lists(inner, max_size=3)
                    | st.dictionaries(TEXT, inner, max_size=3), max_leaves=8))
def test_machine_readable_output_round_trips(data):
    text = data_text(data, Format.JSON)
    assert json.loads(text) == data
    assert not unsafe(text)
    assert not unsafe(data_text(data, Format.YAML))


@given(st.text())
def test_safe_text_is_one_printable_line(text):
    assert not unsafe(safe(text))
    assert "\n" not in safe(text)
