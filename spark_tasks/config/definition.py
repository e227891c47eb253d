"""Kafka's ConfigDef: defines the configuration keys of a plugin or worker, and parses, validates and describes them.

`ConfigDef(ConfigKey("batch.size", Type.INT, default=2000, validator=at_least(1))).parse({})` returns
`{"batch.size": 2000}`; `validate` collects errors instead of raising; `key_infos` describes the keys for REST.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Final, Protocol

from spark_tasks.config.types import Password, Type, invalid, parse_type, to_text
from spark_tasks.config.validators import (
    AllOf,
    Check,
    ListSize,
    NonEmpty,
    NonEmptyNoControlChars,
    NonNull,
    OneOf,
    OneOfIgnoringCase,
    Range,
    Rule,
    Validator,
    ValidList,
    at_least,
    between,
)
from spark_tasks.errors import ConfigError

__all__ = [
    "REQUIRED", "AllOf", "Check", "ConfigDef", "ConfigError", "ConfigKey", "ConfigValue", "Importance", "ListSize",
    "NonEmpty", "NonEmptyNoControlChars", "NonNull", "OneOf", "OneOfIgnoringCase", "Password", "Range", "Recommender",
    "Rule", "Type", "ValidList", "Validator", "Width", "at_least", "between", "invalid", "parse_type", "to_text",
]


class Importance(Enum):
    """How important it is that a user considers a key."""

    HIGH = "HIGH"
    MEDIUM = "MEDIUM"
    LOW = "LOW"


class Width(Enum):
    """How wide the input field of a key should be in a user interface."""

    NONE = "NONE"
    SHORT = "SHORT"
    MEDIUM = "MEDIUM"
    LONG = "LONG"


class Required(Enum):
    """The type of REQUIRED, which marks a key without a default."""

    REQUIRED = "REQUIRED"


REQUIRED: Final = Required.REQUIRED


class Recommender(Protocol):
    """Recommends values of a key. REST's validate endpoint shows them; they are not enforced. `parsed` has the values
    of all keys.
    """

    def valid_values(self, name: str, parsed: Mapping[str, Any]) -> Sequence[Any]:
        """Returns the values to choose from."""

    def visible(self, name: str, parsed: Mapping[str, Any]) -> bool:
        """Returns whether the key is relevant."""


@dataclass(frozen=True, slots=True)
class ConfigKey:
    """One configuration key. A default may be a string; it is parsed and validated like a user's value. An invalid
    definition sets `mistake`, with which ConfigDef's methods raise: an error here would prevent the import of the
    module.
    """

    name: str
    type: Type
    default: Any = field(default=REQUIRED, kw_only=True)
    validator: Validator | None = field(default=None, kw_only=True)
    importance: Importance = field(default=Importance.MEDIUM, kw_only=True)
    doc: str = field(default="", kw_only=True)
    group: str | None = field(default=None, kw_only=True)
    order: int = field(default=-1, kw_only=True)
    width: Width = field(default=Width.NONE, kw_only=True)
    display_name: str | None = field(default=None, kw_only=True)
    dependents: tuple[str, ...] = field(default=(), kw_only=True)
    recommender: Recommender | None = field(default=None, kw_only=True)
    mistake: str | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        if self.display_name is None:
            object.__setattr__(self, "display_name", self.name)
        object.__setattr__(self, "dependents", tuple(self.dependents))
        try:
            self._take_default()
        except Exception as error:  # noqa: BLE001 - a validator may be the plugin author's
            what = str(error) if isinstance(error, ConfigError) else f"{type(error).__name__}: {error}"
            object.__setattr__(self, "mistake", f"the definition of configuration {self.name} is wrong: {what}")

    def _take_default(self) -> None:
        if not isinstance(self.type, Type):
            raise ConfigError(f"its type is {self.type!r}; it must be a member of Type, such as Type.STRING")
        if self.default is not REQUIRED:
            object.__setattr__(self, "default", parse_type(self.name, self.default, self.type))
            if self.validator is not None:
                self.validator(self.name, self.default)

    @property
    def required(self) -> bool:
        """Whether the key has no default."""
        return self.default is REQUIRED

    def info(self) -> dict[str, Any]:
        """Returns the description of the key for REST, with the member names of Kafka Connect 4.3."""
        return {
            "name": self.name,
            "type": self.type.value,
            "required": self.required,
            "default_value": None if self.required else to_text(self.default, self.type),
            "importance": self.importance.value,
            "documentation": self.doc,
            "group": self.group,
            "order_in_group": self.order,
            "width": self.width.value,
            "display_name": self.display_name,
            "dependents": list(self.dependents),
        }


@dataclass(slots=True)
class ConfigValue:
    """The validation result of one key. `value`: the parsed value. Mutable, as later validation steps add errors."""

    name: str
    value: Any = None
    recommended_values: list[Any] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    visible: bool = True


class ConfigDef:
    """A set of keys in the order of their definition. Immutable; `plus` and `embed` return new ones.

    If a key's definition is invalid, `mistake` describes the error, and the methods raise a ConfigError with it.
    """

    def __init__(self, *keys: ConfigKey) -> None:
        self.keys: dict[str, ConfigKey] = {}
        self.mistake = next((key.mistake for key in keys if key.mistake), None)
        for key in keys:
            if key.name in self.keys:
                self.mistake = self.mistake or f"Configuration {key.name} is defined twice."
            self.keys[key.name] = key

    def check(self) -> None:
        """Raises ConfigError if the definition is invalid."""
        if self.mistake is not None:
            raise ConfigError(self.mistake)

    def __contains__(self, name: object) -> bool:
        return name in self.keys

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def groups(self) -> list[str]:
        """The distinct groups of the keys, in order."""
        return list(dict.fromkeys(k.group for k in self.keys.values() if k.group is not None))

    def plus(self, *others: ConfigDef | ConfigKey) -> ConfigDef:
        """Returns a definition with these keys and others, none of which must be defined twice."""
        more = [key for o in others for key in (o.keys.values() if isinstance(o, ConfigDef) else (o,))]
        return ConfigDef(*self.keys.values(), *more)

    def embed(self, prefix: str, group: str, child: ConfigDef, *, order: int = 0) -> ConfigDef:
        """Returns a definition with these keys and those of `child` with a prefix. The child's validators and
        recommenders get names without the prefix.
        """
        ranks = {g: n for n, g in enumerate(child.groups)}
        ordered = sorted(child.keys.values(), key=lambda k: _sort_key(k, ranks))
        return self.plus(*(_embedded(key, prefix, group, order + n) for n, key in enumerate(ordered)))

    def without_functions(self) -> ConfigDef:
        """Returns a definition with the same keys, but without validators and recommenders."""
        return ConfigDef(*(replace(key, validator=None, recommender=None) for key in self.keys.values()))

    def parse(self, props: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the value, or else the default, of every key. Ignores unknown keys. Raises ConfigError at the first
        error.
        """
        self.check()
        undefined = self._undefined_dependents()
        if undefined:
            raise ConfigError(f"Keys named as dependents are not defined: {','.join(undefined)}")
        return {key.name: _parse_one(key, props) for key in self.keys.values()}

    def validate(self, props: Mapping[str, Any]) -> list[ConfigValue]:
        """Returns the value and errors of every key, in the order of definition. Does not raise for invalid values."""
        return list(self.validate_all(props).values())

    def validate_all(self, props: Mapping[str, Any]) -> dict[str, ConfigValue]:
        """Returns the results of `validate` by name."""
        self.check()
        values = {name: _examine(key, props) for name, key in self.keys.items()}
        for name in self._undefined_dependents():
            message = f"{name} is referred in the dependents, but not defined."
            values[name] = ConfigValue(name, errors=[message], visible=False)
        parsed = {name: value.value for name, value in values.items()}
        for name, key in self.keys.items():
            if key.recommender is not None:
                _recommend(key.recommender, values[name], parsed)
        return values

    def key_infos(self) -> list[dict[str, Any]]:
        """Returns the descriptions of the keys for REST."""
        self.check()
        return [key.info() for key in self.keys.values()]

    def _undefined_dependents(self) -> list[str]:
        named = dict.fromkeys(d for key in self.keys.values() for d in key.dependents)
        return [name for name in named if name not in self.keys]


def _parse_one(key: ConfigKey, props: Mapping[str, Any]) -> Any:
    if key.name not in props:
        if key.required:
            raise ConfigError(f'Missing required configuration "{key.name}" which has no default value.')
        return key.default
    value = parse_type(key.name, props[key.name], key.type)
    if isinstance(key.validator, ValidList) and value is not None:
        value = list(dict.fromkeys(value))  # as in Kafka: only validation rejects duplicates
    if key.validator is not None:
        key.validator(key.name, value)
    return value


def _examine(key: ConfigKey, props: Mapping[str, Any]) -> ConfigValue:
    result = ConfigValue(key.name)
    try:
        if key.name in props:
            result.value = parse_type(key.name, props[key.name], key.type)
        elif key.required:
            result.errors.append(f'Missing required configuration "{key.name}" which has no default value.')
        else:
            result.value = key.default
    except ConfigError as e:
        result.errors.append(str(e))
    if key.validator is not None:
        try:
            key.validator(key.name, result.value)
        except ConfigError as e:
            result.errors.append(str(e))
    return result


def _recommend(recommender: Recommender, value: ConfigValue, parsed: Mapping[str, Any]) -> None:
    try:
        value.recommended_values = list(recommender.valid_values(value.name, parsed))
        value.visible = recommender.visible(value.name, parsed)
    except ConfigError as e:
        value.errors.append(str(e))


def _sort_key(key: ConfigKey, group_ranks: Mapping[str, int]) -> tuple[int, int, bool, int, str]:
    importance = list(Importance).index(key.importance)
    group = -1 if key.group is None else group_ranks[key.group]
    return group, key.order, not key.required, importance, key.name


def _embedded(key: ConfigKey, prefix: str, group: str, order: int) -> ConfigKey:
    base = key.validator
    validator = None if base is None else Check(lambda name, value: base(name.removeprefix(prefix), value), str(base))
    return replace(
        key,
        name=prefix + key.name,
        validator=validator,
        group=group + ("" if key.group is None else f": {key.group}"),
        order=order,
        display_name=key.display_name,
        dependents=tuple(prefix + d for d in key.dependents),
        recommender=None if key.recommender is None else _Embedded(prefix, key.recommender),
    )


@dataclass(frozen=True, slots=True)
class _Embedded:
    """A recommender that gets keys without their prefix."""

    prefix: str
    base: Recommender

    def valid_values(self, name: str, parsed: Mapping[str, Any]) -> Sequence[Any]:
        return self.base.valid_values(name.removeprefix(self.prefix), self._inner(parsed))

    def visible(self, name: str, parsed: Mapping[str, Any]) -> bool:
        return self.base.visible(name.removeprefix(self.prefix), self._inner(parsed))

    def _inner(self, parsed: Mapping[str, Any]) -> dict[str, Any]:
        return {k.removeprefix(self.prefix): v for k, v in parsed.items() if k.startswith(self.prefix)}
