"""ConfigDef over arbitrary keys and properties."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_tasks.config.definition import (
    ConfigDef,
    ConfigError,
    ConfigKey,
    Password,
    Type,
    ValidList,
    at_least,
    to_text,
)
from spark_tasks.config.types import parse_type

names = st.text("abc.", min_size=1, max_size=4)
texts = st.one_of(
    st.none(), st.text(max_size=12), st.integers().map(str), st.floats().map(str),
    st.sampled_from(["true", "FALSE", ""]))
VALIDATORS = {Type.LIST: ValidList(), Type.INT: at_least(0)}


@st.composite
def definitions(draw):
    chosen = draw(st.dictionaries(names, st.sampled_from(Type), max_size=6))
    return ConfigDef(*(ConfigKey(name, kind, validator=VALIDATORS.get(kind)) for name, kind in chosen.items()))


@given(definitions(), st.dictionaries(names, texts))
def test_parse_and_validate_agree(keys, props):
    """Where validate sees no error, parse gives its values; where parse raises, validate has that very message."""
    values = keys.validate_all(props)
    assert list(values) == list(keys.keys)
    errors = [error for value in values.values() for error in value.errors]
    fatal = [error for error in errors if "duplicated" not in error]
    if fatal:
        with pytest.raises(ConfigError) as caught:
            keys.parse(props)
        assert str(caught.value) in fatal
        return
    parsed = keys.parse(props)
    for name, value in values.items():
        if not value.errors:
            assert repr(parsed[name]) == repr(value.value)


@given(st.sampled_from(Type), texts)
def test_parsed_values_round_trip_through_text(kind, text):
    try:
        value = parse_type("k", text, kind)
    except ConfigError:
        return
    again = to_text(value, kind)
    if isinstance(value, Password) or value is None:
        assert again in ("[hidden]", None)
    else:
        assert shown_equal(parse_type("k", again, kind), value)


def shown_equal(one, other):
    return repr(one) == repr(other)


@given(definitions(), st.dictionaries(names, texts), names)
def test_embedding_changes_only_the_names_of_keys(keys, props, prefix):
    outer = ConfigDef().embed(prefix, "g", keys)
    prefixed = outer.validate_all({prefix + name: value for name, value in props.items()})
    plain = keys.validate_all(props)
    assert {name.removeprefix(prefix) for name in prefixed} == set(plain)
    for name, value in plain.items():
        assert bool(prefixed[prefix + name].errors) == bool(value.errors)
        assert repr(prefixed[prefix + name].value) == repr(value.value)


@given(definitions())
def test_every_key_has_the_fields_that_clients_read(keys):
    for info in keys.key_infos():
        assert set(info) == {"name", "type", "required", "default_value", "importance", "documentation", "group",
                             "order_in_group", "width", "display_name", "dependents"}
