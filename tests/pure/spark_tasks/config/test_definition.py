"""Parsing, validators and their messages: the expected texts are those of Kafka 4.3.1's ConfigDef."""

from __future__ import annotations

import pytest

from spark_tasks.config.definition import (
    AllOf,
    ConfigDef,
    ConfigError,
    ConfigKey,
    Importance,
    ListSize,
    NonEmpty,
    NonEmptyNoControlChars,
    NonNull,
    OneOf,
    OneOfIgnoringCase,
    Password,
    Type,
    ValidList,
    Width,
    at_least,
    between,
    to_text,
)
from spark_tasks.config.types import shown


def definition(kind, validator=None):
    return ConfigDef(ConfigKey("k", kind, validator=validator))


@pytest.mark.parametrize(("kind", "text", "value"), [
    (Type.INT, " 12 ", 12), (Type.INT, "+12", 12), (Type.INT, "-2147483648", -2147483648), (Type.SHORT, "7", 7),
    (Type.LONG, "9223372036854775807", 2**63 - 1), (Type.DOUBLE, "1e3", 1000.0), (Type.DOUBLE, "1.5f", 1.5),
    (Type.DOUBLE, ".5", 0.5), (Type.DOUBLE, "-Infinity", float("-inf")), (Type.BOOLEAN, " TRUE ", True),
    (Type.BOOLEAN, "false", False), (Type.STRING, " a b ", "a b"), (Type.LIST, " a , b,,c ", ["a", "b", "", "c"]),
    (Type.LIST, "", []), (Type.LIST, "  ", []), (Type.CLASS, " a.B ", "a.B"), (Type.PASSWORD, " x ", Password("x")),
    (Type.STRING, None, None), (Type.BOOLEAN, True, True), (Type.LIST, ["a"], ["a"]), (Type.LONG, 5, 5),
])
def test_values_are_parsed_by_their_type(kind, text, value):
    assert definition(kind).parse({"k": text}) == {"k": value}


@pytest.mark.parametrize(("kind", "text", "message"), [
    (Type.INT, "x", "Invalid value x for configuration k: Not a number of type INT"),
    (Type.INT, "1_2", "Invalid value 1_2 for configuration k: Not a number of type INT"),
    (Type.INT, "9999999999", "Invalid value 9999999999 for configuration k: Not a number of type INT"),
    (Type.INT, "", "Invalid value  for configuration k: Not a number of type INT"),
    (Type.INT, "1" * 5000, f"Invalid value {'1' * 5000} for configuration k: Not a number of type INT"),
    (Type.SHORT, "70000", "Invalid value 70000 for configuration k: Not a number of type SHORT"),
    (Type.LONG, "1.5", "Invalid value 1.5 for configuration k: Not a number of type LONG"),
    (Type.DOUBLE, "abc", "Invalid value abc for configuration k: Not a number of type DOUBLE"),
    (Type.DOUBLE, "inf", "Invalid value inf for configuration k: Not a number of type DOUBLE"),
    (Type.BOOLEAN, "yes", "Invalid value yes for configuration k: Expected value to be either true or false"),
    (Type.BOOLEAN, 1, "Invalid value 1 for configuration k: Expected value to be either true or false"),
])
def test_invalid_values_are_reported_as_in_java(kind, text, message):
    with pytest.raises(ConfigError) as caught:
        definition(kind).parse({"k": text})
    assert str(caught.value) == message
    [value] = definition(kind).validate({"k": text})
    assert value.errors == [message]
    assert value.value is None


def test_a_missing_key_without_a_default_is_an_error():
    with pytest.raises(ConfigError, match=r'^Missing required configuration "k" which has no default value.$'):
        definition(Type.STRING).parse({})


@pytest.mark.parametrize(("kind", "validator", "text", "message"), [
    (Type.INT, at_least(1), "0", "Invalid value 0 for configuration k: Value must be at least 1"),
    (Type.INT, between(1, 5), "9", "Invalid value 9 for configuration k: Value must be no more than 5"),
    (Type.STRING, OneOf("a", "b"), "c", "Invalid value c for configuration k: String must be one of: a, b"),
    (Type.STRING, OneOf("a", "b"), None, "Invalid value null for configuration k: String must be one of: a, b"),
    (Type.STRING, OneOfIgnoringCase("a", "b"), "C",
     "Invalid value C for configuration k: String must be one of (case insensitive): A, B"),
    (Type.STRING, NonEmpty(), "", "Invalid value  for configuration k: String must be non-empty"),
    (Type.STRING, NonEmptyNoControlChars(), "", "Invalid value  for configuration k: String may not be empty"),
    (Type.STRING, NonEmptyNoControlChars(), "a\1b\7c",
     ("Invalid value a\1b\7c for configuration k: String may not contain control sequences but had the following "
      "ASCII chars: 1, 7")),
    (Type.STRING, NonNull(), None, "Invalid value null for configuration k: entry must be non null"),
    (Type.STRING, AllOf(NonNull(), NonEmpty()), "", "Invalid value  for configuration k: String must be non-empty"),
    (Type.LIST, ListSize(1), "a,b", "Invalid value [a, b] for configuration k: exceeds maximum list size of [1]."),
    (Type.LIST, ValidList("a", "b"), "a,c", "Invalid value c for configuration k: String must be one of: a, b"),
    (Type.LIST, ValidList("a", "b", empty=False), "",
     "Configuration 'k' must not be empty. Valid values include: [a, b]"),
    (Type.LIST, ValidList(empty=False), "",
     "Configuration 'k' must not be empty. Valid values include: any non-empty value"),
    (Type.LIST, ValidList("a"), None, "Configuration 'k' values must not be null."),
    (Type.LIST, ValidList(), "a,,b", "Configuration 'k' values must not be empty."),
])
def test_validators_report_invalid_values_as_in_java(kind, validator, text, message):
    with pytest.raises(ConfigError) as caught:
        definition(kind, validator).parse({"k": text})
    assert str(caught.value) == message
    assert definition(kind, validator).validate({"k": text})[0].errors == [message]


def test_an_invalid_number_is_also_validated_as_null():
    [value] = definition(Type.INT, between(1, 5)).validate({"k": "x"})
    assert value.errors == ["Invalid value x for configuration k: Not a number of type INT",
                            "Invalid value null for configuration k: Value must be non-null"]


def test_duplicates_in_a_list_are_dropped_by_parse_and_reported_by_validate():
    keys = definition(Type.LIST, ValidList())
    assert keys.parse({"k": "a,b,a"}) == {"k": ["a", "b"]}
    assert keys.validate({"k": "a,b,a"})[0].errors == ["Configuration 'k' values must not be duplicated."]
    assert definition(Type.LIST, ValidList(null=True)).parse({"k": None}) == {"k": None}


@pytest.mark.parametrize(("validator", "text"), [
    (at_least(1), "[1,...]"), (between(1, 5), "[1,...,5]"), (OneOf("a", "b"), "[a, b]"), (NonNull(), "non-null string"),
    (OneOfIgnoringCase("a", "b"), "(case insensitive) [A, B]"), (NonEmpty(), "non-empty string"),
    (NonEmptyNoControlChars(), "non-empty string without ISO control characters"),
    (ListSize(1), "List containing maximum of 1 elements"), (AllOf(NonNull(), NonEmpty()),
                                                             "non-null string, non-empty string"),
])
def test_validators_describe_themselves_as_in_java(validator, text):
    assert str(validator) == text


@pytest.mark.parametrize(("number", "text"), [
    (0.001, "0.001"), (0.00099, "9.9E-4"), (1e7, "1.0E7"), (9999999.0, "9999999.0"), (100.0, "100.0"),
    (1 / 3, "0.3333333333333333"), (1e21, "1.0E21"), (1e-5, "1.0E-5"), (123456789012.0, "1.23456789012E11"),
    (12345678.5, "1.23456785E7"), (float("inf"), "Infinity"), (float("nan"), "NaN"), (-0.0, "-0.0"),
])
def test_doubles_as_java_prints_them(number, text):
    assert shown(number) == text


def test_secrets_are_not_shown():
    key = ConfigKey("p", Type.PASSWORD, default="secret")
    assert key.default == Password("secret")
    assert "secret" not in f"{key.default}{key.default!r}{key.info()}{shown(key.default)}"
    assert to_text(Password("x"), Type.PASSWORD) == "[hidden]"


USES = [lambda keys: keys.parse({}), lambda keys: keys.validate({}), lambda keys: keys.key_infos(),
        lambda keys: ConfigDef(ConfigKey("other", Type.STRING)).embed("p.", "g", keys).validate({})]


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize(("key", "message"), [
    ({"type": Type.INT, "default": "0", "validator": at_least(1)},
     "Invalid value 0 for configuration k: Value must be at least 1"),
    ({"type": Type.INT, "default": 1, "validator": lambda _name, _value: 1 // 0}, "ZeroDivisionError: .*"),
    ({"type": "int"}, "its type is 'int'; it must be a member of Type, such as Type.STRING"),
])
def test_an_invalid_definition_is_reported_when_it_is_used(key, message, use):
    with pytest.raises(ConfigError, match=f"^the definition of configuration (p\\.)?k is wrong: {message}$"):
        use(ConfigDef(ConfigKey("k", **key)))


@pytest.mark.parametrize("use", USES[:3])
def test_a_key_is_defined_once(use):
    key = ConfigKey("a", Type.STRING, default="")
    with pytest.raises(ConfigError, match=r"^Configuration a is defined twice.$"):
        use(ConfigDef(key).plus(key))


def test_undefined_dependents_are_an_error():
    keys = ConfigDef(ConfigKey("a", Type.STRING, default="x", dependents=("zz",)))
    with pytest.raises(ConfigError, match="zz"):
        keys.parse({})
    zz = keys.validate_all({})["zz"]
    assert (zz.errors, zz.visible) == (["zz is referred in the dependents, but not defined."], False)


class Larger:
    def valid_values(self, _name, parsed):
        return [parsed["low"] + 1]

    def visible(self, _name, parsed):
        if parsed["low"] is None:
            raise ConfigError("low first")
        return parsed["low"] > 0


def test_recommenders_see_the_other_values_and_their_errors_are_reported():
    high = ConfigKey("high", Type.INT, default=9, recommender=Larger())
    keys = ConfigDef(ConfigKey("low", Type.INT, default=0), high)
    high = keys.validate_all({"low": "3"})["high"]
    assert (high.recommended_values, high.visible) == ([4], True)
    assert keys.validate_all({})["high"].visible is False


def test_embedded_keys_are_sorted_prefixed_and_validated_by_their_own_names():
    child = ConfigDef(
        ConfigKey("b", Type.INT, default=1, validator=at_least(1), importance=Importance.LOW),
        ConfigKey("a", Type.INT, default=1, recommender=Larger(), dependents=("b",)),
        ConfigKey("low", Type.INT, group="G", order=3),
    )
    keys = ConfigDef(ConfigKey("own", Type.STRING)).embed("x.", "Group", child, order=2)
    assert [(k.name, k.group, k.order) for k in keys.keys.values()] == [
        ("own", None, -1), ("x.a", "Group", 2), ("x.b", "Group", 3), ("x.low", "Group: G", 4)]
    assert keys.keys["x.a"].dependents == ("x.b",)
    values = keys.validate_all({"own": "", "x.b": "0", "x.low": "5"})
    assert values["x.b"].errors == ["Invalid value 0 for configuration b: Value must be at least 1"]
    assert values["x.a"].recommended_values == [6]


def test_a_key_is_described_for_rest():
    key = ConfigKey("a.b", Type.LIST, default=["x", "y"], importance=Importance.HIGH, doc="d", group="g", order=2,
                    width=Width.LONG, display_name="A", dependents=["c"])
    assert key.info() == {
        "name": "a.b", "type": "LIST", "required": False, "default_value": "x,y", "importance": "HIGH",
        "documentation": "d", "group": "g", "order_in_group": 2, "width": "LONG", "display_name": "A",
        "dependents": ["c"]}
    assert ConfigKey("n", Type.INT).info()["required"] is True
